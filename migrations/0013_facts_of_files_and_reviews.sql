ALTER TABLE "pull_requests" ADD COLUMN "writer_approvals" integer;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD COLUMN "times_changes_requested" integer;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD COLUMN "bot_reviews" integer;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD COLUMN "merged_by" text;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD COLUMN "self_merged" boolean;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD COLUMN "file_changes" json;