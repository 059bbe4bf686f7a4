ALTER TABLE "rescore_ranges" ADD COLUMN "id" uuid DEFAULT gen_random_uuid() NOT NULL;--> statement-breakpoint
ALTER TABLE "rescore_ranges" ADD COLUMN "leased_until" timestamp with time zone;