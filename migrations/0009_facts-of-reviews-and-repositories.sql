ALTER TABLE "pull_requests" ADD COLUMN "distinct_reviewers" integer;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD COLUMN "review_decision" text;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD COLUMN "ready_at" timestamp (0) with time zone;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD COLUMN "repository_is_archived" boolean;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD COLUMN "repository_is_private" boolean;