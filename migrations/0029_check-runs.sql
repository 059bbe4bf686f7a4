CREATE TABLE "check_runs" (
	"organisation_id" uuid NOT NULL,
	"pull_request_id" uuid NOT NULL,
	"row_version" text NOT NULL,
	"ruleset_version" integer NOT NULL,
	"shown_hash" text,
	"is_final" boolean NOT NULL,
	"published_at" timestamp with time zone,
	"due_at" timestamp with time zone,
	"attempts" integer DEFAULT 0 NOT NULL,
	"last_error" text,
	CONSTRAINT "check_runs_organisation_id_pull_request_id_pk" PRIMARY KEY("organisation_id","pull_request_id")
);
--> statement-breakpoint
ALTER TABLE "content_versions" ADD COLUMN "stored_version" uuid;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "checks_due_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "checks_version" uuid;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD COLUMN "head_sha" text;--> statement-breakpoint
ALTER TABLE "check_runs" ADD CONSTRAINT "check_runs_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "check_runs" ADD CONSTRAINT "check_runs_organisation_id_pull_request_id_pull_requests_organisation_id_id_fk" FOREIGN KEY ("organisation_id","pull_request_id") REFERENCES "public"."pull_requests"("organisation_id","id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "check_runs_failing" ON "check_runs" USING btree ("organisation_id") WHERE "check_runs"."last_error" is not null;