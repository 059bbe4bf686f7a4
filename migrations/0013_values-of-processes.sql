ALTER TABLE "service_reports" ALTER COLUMN "hashes" SET DEFAULT '{}'::json;--> statement-breakpoint
ALTER TABLE "service_reports" ADD COLUMN "fingerprint" text DEFAULT '' NOT NULL;