ALTER TABLE "organisations" ADD COLUMN "shown_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "sync_requests" ADD COLUMN "failed_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "sync_requests" ADD COLUMN "is_candidate" boolean DEFAULT false NOT NULL;