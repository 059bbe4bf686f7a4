ALTER TABLE "pull_requests" ADD COLUMN "reviewers" json;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD COLUMN "review_scores" json;--> statement-breakpoint
ALTER TABLE "rulesets" ADD COLUMN "reviews" jsonb DEFAULT '[]'::jsonb NOT NULL;