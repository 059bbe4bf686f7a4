CREATE TABLE "audit_events" (
	"organisation_id" uuid NOT NULL,
	"id" bigserial NOT NULL,
	"happened_at" timestamp with time zone DEFAULT now() NOT NULL,
	"organisation" text NOT NULL,
	"actor" text NOT NULL,
	"action" text NOT NULL,
	"subject" text NOT NULL,
	"request_id" text,
	CONSTRAINT "audit_events_organisation_id_id_pk" PRIMARY KEY("organisation_id","id")
);
--> statement-breakpoint
CREATE INDEX "audit_events_by_time" ON "audit_events" USING btree ("organisation_id","happened_at");