CREATE TABLE "erased_people" (
	"organisation_id" uuid NOT NULL,
	"id_hash" text NOT NULL,
	"erased_at" timestamp with time zone DEFAULT now() NOT NULL,
	"finished_at" timestamp with time zone,
	CONSTRAINT "erased_people_organisation_id_id_hash_pk" PRIMARY KEY("organisation_id","id_hash")
);
--> statement-breakpoint
ALTER TABLE "members" ADD COLUMN "former_logins" text[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "removed_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "erased_people" ADD CONSTRAINT "erased_people_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;