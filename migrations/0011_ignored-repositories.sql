ALTER TABLE "organisations" ADD COLUMN "ignored_globs" text[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "ignores_archived" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "ignores_forks" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "repositories" ADD COLUMN "ignored_because" text;