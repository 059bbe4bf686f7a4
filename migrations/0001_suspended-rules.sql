ALTER TABLE "organisations" ADD COLUMN "suspended_version" integer;--> statement-breakpoint
ALTER TABLE "rulesets" ADD COLUMN "suspended_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "rulesets" ADD COLUMN "suspension" text;