CREATE TABLE "changes" (
	"organisation_id" uuid NOT NULL,
	"transaction" "xid8" NOT NULL,
	"from_id" uuid NOT NULL,
	"until_id" uuid NOT NULL,
	"is_deletion" boolean DEFAULT false NOT NULL,
	"recorded_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "changes_organisation_id_transaction_from_id_pk" PRIMARY KEY("organisation_id","transaction","from_id")
);
--> statement-breakpoint
ALTER TABLE "pull_requests" ADD COLUMN "changed_by" "xid8" DEFAULT '0' NOT NULL;--> statement-breakpoint
ALTER TABLE "changes" ADD CONSTRAINT "changes_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;