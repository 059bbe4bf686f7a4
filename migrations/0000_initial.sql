CREATE SEQUENCE "public"."tickets" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1;--> statement-breakpoint
CREATE TABLE "access_tokens" (
	"organisation_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"user_id" uuid NOT NULL,
	"name" text NOT NULL,
	"token_hash" text NOT NULL,
	"scopes" text[] NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"expires_at" timestamp with time zone,
	"revoked_at" timestamp with time zone,
	"last_used_at" timestamp with time zone,
	CONSTRAINT "access_tokens_organisation_id_id_pk" PRIMARY KEY("organisation_id","id")
);
--> statement-breakpoint
CREATE TABLE "deleted_pull_requests" (
	"organisation_id" uuid NOT NULL,
	"github_id" bigint NOT NULL,
	"source_updated_at" timestamp (0) with time zone NOT NULL,
	"ticket" bigint NOT NULL,
	"deleted_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "deleted_pull_requests_organisation_id_github_id_pk" PRIMARY KEY("organisation_id","github_id")
);
--> statement-breakpoint
CREATE TABLE "github_limits" (
	"credential" text PRIMARY KEY NOT NULL,
	"blocked_until" timestamp with time zone NOT NULL,
	"refusals" integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE "members" (
	"organisation_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"github_id" bigint NOT NULL,
	"login" text NOT NULL,
	"name" text NOT NULL,
	"photo_url" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"left_at" timestamp with time zone,
	CONSTRAINT "members_organisation_id_id_pk" PRIMARY KEY("organisation_id","id"),
	CONSTRAINT "members_github_id" UNIQUE("organisation_id","github_id")
);
--> statement-breakpoint
CREATE TABLE "organisations" (
	"id" uuid PRIMARY KEY NOT NULL,
	"github_id" bigint,
	"login" text NOT NULL,
	"name" text NOT NULL,
	"photo_url" text NOT NULL,
	"webhooks_enabled" boolean DEFAULT true NOT NULL,
	"ruleset_version" integer DEFAULT 0 NOT NULL,
	"reconcile_due_at" timestamp with time zone DEFAULT now() NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "organisations_github_id_unique" UNIQUE("github_id")
);
--> statement-breakpoint
CREATE TABLE "pull_requests" (
	"organisation_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"repository_id" uuid NOT NULL,
	"member_id" uuid NOT NULL,
	"github_id" bigint NOT NULL,
	"node_id" text NOT NULL,
	"url" text NOT NULL,
	"number" integer NOT NULL,
	"title" text NOT NULL,
	"body" text NOT NULL,
	"state" text NOT NULL,
	"draft" boolean NOT NULL,
	"author" text NOT NULL,
	"author_association" text NOT NULL,
	"author_is_bot" boolean NOT NULL,
	"base" text NOT NULL,
	"head" text NOT NULL,
	"from_fork" boolean NOT NULL,
	"milestone" text,
	"additions" integer NOT NULL,
	"deletions" integer NOT NULL,
	"changed_files" integer NOT NULL,
	"commits" integer NOT NULL,
	"comments" integer NOT NULL,
	"reviews" integer NOT NULL,
	"approvals" integer NOT NULL,
	"changes_requested" integer NOT NULL,
	"linked_issues" integer NOT NULL,
	"created_at" timestamp (0) with time zone NOT NULL,
	"source_updated_at" timestamp (0) with time zone NOT NULL,
	"merged_at" timestamp (0) with time zone,
	"closed_at" timestamp (0) with time zone,
	"first_review_at" timestamp (0) with time zone,
	"labels" text[] NOT NULL,
	"assignees" text[] NOT NULL,
	"files" text[] NOT NULL,
	"score" integer NOT NULL,
	"score_breakdown" json NOT NULL,
	"ruleset_version" integer NOT NULL,
	"fetch_ticket" bigint NOT NULL,
	CONSTRAINT "pull_requests_organisation_id_id_pk" PRIMARY KEY("organisation_id","id"),
	CONSTRAINT "pull_requests_github_id" UNIQUE("organisation_id","github_id"),
	CONSTRAINT "pull_requests_state" CHECK ("pull_requests"."state" in ('closed', 'draft', 'merged', 'open'))
);
--> statement-breakpoint
CREATE TABLE "repositories" (
	"organisation_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"github_id" bigint NOT NULL,
	"node_id" text NOT NULL,
	"name" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"reconciled_at" timestamp (0) with time zone,
	"import_cursor" text,
	"imported_at" timestamp with time zone,
	CONSTRAINT "repositories_organisation_id_id_pk" PRIMARY KEY("organisation_id","id"),
	CONSTRAINT "repositories_github_id" UNIQUE("organisation_id","github_id")
);
--> statement-breakpoint
CREATE TABLE "rescore_ranges" (
	"organisation_id" uuid NOT NULL,
	"from_id" uuid NOT NULL,
	"until_id" uuid,
	"is_batch" boolean NOT NULL,
	CONSTRAINT "rescore_ranges_organisation_id_from_id_pk" PRIMARY KEY("organisation_id","from_id")
);
--> statement-breakpoint
CREATE TABLE "rules" (
	"organisation_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"name" text NOT NULL,
	"description" text NOT NULL,
	"is_enabled" boolean NOT NULL,
	"position" integer NOT NULL,
	"logic" jsonb NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "rules_organisation_id_id_pk" PRIMARY KEY("organisation_id","id"),
	CONSTRAINT "rules_name" UNIQUE("organisation_id","name")
);
--> statement-breakpoint
CREATE TABLE "rulesets" (
	"organisation_id" uuid NOT NULL,
	"version" integer NOT NULL,
	"rules" jsonb NOT NULL,
	"applied_at" timestamp with time zone DEFAULT now() NOT NULL,
	"applied_by" text NOT NULL,
	CONSTRAINT "rulesets_organisation_id_version_pk" PRIMARY KEY("organisation_id","version")
);
--> statement-breakpoint
CREATE TABLE "score_changes" (
	"organisation_id" uuid NOT NULL,
	"id" bigserial NOT NULL,
	"pull_request_id" uuid NOT NULL,
	"changed_at" timestamp with time zone DEFAULT now() NOT NULL,
	"from_score" integer,
	"to_score" integer NOT NULL,
	"cause" text NOT NULL,
	"ruleset_version" integer NOT NULL,
	CONSTRAINT "score_changes_organisation_id_pull_request_id_id_pk" PRIMARY KEY("organisation_id","pull_request_id","id"),
	CONSTRAINT "score_changes_cause" CHECK ("score_changes"."cause" in ('pull_request', 'ruleset'))
);
--> statement-breakpoint
CREATE TABLE "sync_requests" (
	"organisation_id" uuid NOT NULL,
	"github_id" bigint NOT NULL,
	"node_id" text NOT NULL,
	"ticket" bigint NOT NULL,
	"requested_at" timestamp with time zone DEFAULT now() NOT NULL,
	"due_at" timestamp with time zone DEFAULT now() NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"last_error" text,
	CONSTRAINT "sync_requests_organisation_id_github_id_pk" PRIMARY KEY("organisation_id","github_id")
);
--> statement-breakpoint
CREATE TABLE "users" (
	"organisation_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"name" text NOT NULL,
	"email" text NOT NULL,
	"photo_url" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "users_organisation_id_id_pk" PRIMARY KEY("organisation_id","id")
);
--> statement-breakpoint
CREATE TABLE "webhook_deliveries" (
	"organisation_id" uuid NOT NULL,
	"guid" text NOT NULL,
	"event" text NOT NULL,
	"action" text NOT NULL,
	"state" text NOT NULL,
	"pull_request_github_id" bigint,
	"ticket" bigint NOT NULL,
	"received_at" timestamp with time zone DEFAULT now() NOT NULL,
	"applied_at" timestamp with time zone,
	CONSTRAINT "webhook_deliveries_organisation_id_guid_pk" PRIMARY KEY("organisation_id","guid"),
	CONSTRAINT "webhook_deliveries_state" CHECK ("webhook_deliveries"."state" in ('pending', 'applied'))
);
--> statement-breakpoint
ALTER TABLE "access_tokens" ADD CONSTRAINT "access_tokens_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "access_tokens" ADD CONSTRAINT "access_tokens_organisation_id_user_id_users_organisation_id_id_fk" FOREIGN KEY ("organisation_id","user_id") REFERENCES "public"."users"("organisation_id","id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deleted_pull_requests" ADD CONSTRAINT "deleted_pull_requests_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "members" ADD CONSTRAINT "members_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD CONSTRAINT "pull_requests_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD CONSTRAINT "pull_requests_organisation_id_repository_id_repositories_organisation_id_id_fk" FOREIGN KEY ("organisation_id","repository_id") REFERENCES "public"."repositories"("organisation_id","id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD CONSTRAINT "pull_requests_organisation_id_member_id_members_organisation_id_id_fk" FOREIGN KEY ("organisation_id","member_id") REFERENCES "public"."members"("organisation_id","id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "repositories" ADD CONSTRAINT "repositories_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "rescore_ranges" ADD CONSTRAINT "rescore_ranges_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "rulesets" ADD CONSTRAINT "rulesets_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "score_changes" ADD CONSTRAINT "score_changes_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "sync_requests" ADD CONSTRAINT "sync_requests_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "users" ADD CONSTRAINT "users_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "webhook_deliveries" ADD CONSTRAINT "webhook_deliveries_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "access_tokens_token_hash" ON "access_tokens" USING btree ("token_hash");--> statement-breakpoint
CREATE INDEX "members_by_creation" ON "members" USING btree ("organisation_id","created_at","id");--> statement-breakpoint
CREATE UNIQUE INDEX "organisations_login" ON "organisations" USING btree (lower("login"));--> statement-breakpoint
CREATE INDEX "pull_requests_by_creation" ON "pull_requests" USING btree ("organisation_id","created_at","id");--> statement-breakpoint
CREATE INDEX "pull_requests_of_member" ON "pull_requests" USING btree ("organisation_id","member_id","created_at","id");--> statement-breakpoint
CREATE INDEX "pull_requests_of_repository" ON "pull_requests" USING btree ("organisation_id","repository_id");--> statement-breakpoint
CREATE INDEX "sync_requests_by_due" ON "sync_requests" USING btree ("organisation_id","due_at");--> statement-breakpoint
CREATE UNIQUE INDEX "users_email" ON "users" USING btree ("organisation_id",lower("email"));--> statement-breakpoint
CREATE INDEX "users_by_name" ON "users" USING btree ("organisation_id","name" collate "und-x-icu","id");--> statement-breakpoint
CREATE INDEX "webhook_deliveries_pending" ON "webhook_deliveries" USING btree ("organisation_id","pull_request_github_id") WHERE "webhook_deliveries"."state" = 'pending';--> statement-breakpoint
CREATE INDEX "webhook_deliveries_by_receipt" ON "webhook_deliveries" USING btree ("organisation_id","received_at");