ALTER TABLE "members" ADD COLUMN "fetch_ticket" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "repositories" ADD COLUMN "fetch_ticket" bigint DEFAULT 0 NOT NULL;