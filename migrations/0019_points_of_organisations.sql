ALTER TABLE "organisations" ADD COLUMN "points_used" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "points_reset_at" timestamp (0) with time zone;--> statement-breakpoint
ALTER TABLE "webhook_deliveries" ADD COLUMN "pull_request_node_id" text;