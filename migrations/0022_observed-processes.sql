ALTER TABLE "organisations" ADD COLUMN "reconcile_requested" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "reconciled_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "reconcile_failed_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "reconcile_failure" text;--> statement-breakpoint
ALTER TABLE "service_reports" ADD COLUMN "command" text;--> statement-breakpoint
ALTER TABLE "service_reports" ADD COLUMN "place" text;--> statement-breakpoint
ALTER TABLE "service_reports" ADD COLUMN "seen_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "service_reports" ADD COLUMN "salt" text;--> statement-breakpoint
ALTER TABLE "service_reports" ADD COLUMN "hashes" json;