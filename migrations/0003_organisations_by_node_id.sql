ALTER TABLE "organisations" ADD COLUMN "node_id" text;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "fetch_ticket" bigint DEFAULT 0 NOT NULL;