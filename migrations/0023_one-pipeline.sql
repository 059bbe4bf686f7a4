ALTER TABLE "untracked_pull_requests" ADD COLUMN "source_updated_at" timestamp (0) with time zone;--> statement-breakpoint
ALTER TABLE "organisations" DROP COLUMN "reconcile_cursor";--> statement-breakpoint
ALTER TABLE "repositories" DROP COLUMN "reconcile_cursor";--> statement-breakpoint
ALTER TABLE "repositories" DROP COLUMN "reconcile_until";