ALTER TABLE "organisations" ADD COLUMN "prune_due_at" timestamp with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "folded_id" uuid;--> statement-breakpoint
ALTER TABLE "score_changes" ADD COLUMN "changes" integer DEFAULT 1 NOT NULL;