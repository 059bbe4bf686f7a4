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
CREATE TABLE "content_versions" (
	"organisation_id" uuid PRIMARY KEY NOT NULL,
	"version" uuid NOT NULL,
	"stored_version" uuid NOT NULL
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
CREATE TABLE "erased_people" (
	"organisation_id" uuid NOT NULL,
	"id_hash" text NOT NULL,
	"erased_at" timestamp with time zone DEFAULT now() NOT NULL,
	"finished_at" timestamp with time zone,
	CONSTRAINT "erased_people_organisation_id_id_hash_pk" PRIMARY KEY("organisation_id","id_hash")
);
--> statement-breakpoint
CREATE TABLE "github_limits" (
	"credential" text PRIMARY KEY NOT NULL,
	"blocked_until" timestamp with time zone DEFAULT now() NOT NULL,
	"refusals" integer DEFAULT 0 NOT NULL,
	"points" integer,
	"remaining_points" integer,
	"reset_at" timestamp (0) with time zone
);
--> statement-breakpoint
CREATE TABLE "members" (
	"organisation_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"github_id" bigint NOT NULL,
	"login" text NOT NULL,
	"name" text NOT NULL,
	"photo_url" text NOT NULL,
	"former_logins" text[] DEFAULT '{}' NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"left_at" timestamp with time zone,
	"fetch_ticket" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "members_organisation_id_id_pk" PRIMARY KEY("organisation_id","id"),
	CONSTRAINT "members_github_id" UNIQUE("organisation_id","github_id")
);
--> statement-breakpoint
CREATE TABLE "organisations" (
	"id" uuid PRIMARY KEY NOT NULL,
	"github_id" bigint,
	"node_id" text,
	"login" text NOT NULL,
	"name" text NOT NULL,
	"photo_url" text NOT NULL,
	"fetch_ticket" bigint DEFAULT 0 NOT NULL,
	"webhooks_enabled" boolean DEFAULT true NOT NULL,
	"ruleset_version" integer DEFAULT 0 NOT NULL,
	"points_used" integer DEFAULT 0 NOT NULL,
	"points_reset_at" timestamp (0) with time zone,
	"sync_served_at" timestamp with time zone DEFAULT now() NOT NULL,
	"sync_leased_until" timestamp with time zone DEFAULT now() NOT NULL,
	"comparison_due_at" timestamp with time zone DEFAULT now() NOT NULL,
	"comparison_again_at" timestamp with time zone,
	"comparison_requested" boolean DEFAULT false NOT NULL,
	"compared_at" timestamp with time zone,
	"comparison_failed_at" timestamp with time zone,
	"comparison_failure" text,
	"members_due_at" timestamp with time zone DEFAULT now() NOT NULL,
	"swept_at" timestamp with time zone DEFAULT now() NOT NULL,
	"prune_due_at" timestamp with time zone DEFAULT now() NOT NULL,
	"folded_id" uuid,
	"checks_due_at" timestamp with time zone,
	"checks_version" uuid,
	"removed_at" timestamp with time zone,
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
	"head_sha" text NOT NULL,
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
	"writer_approvals" integer NOT NULL,
	"times_changes_requested" integer NOT NULL,
	"bot_reviews" integer NOT NULL,
	"linked_issues" integer NOT NULL,
	"created_at" timestamp (0) with time zone NOT NULL,
	"source_updated_at" timestamp (0) with time zone NOT NULL,
	"merged_at" timestamp (0) with time zone,
	"closed_at" timestamp (0) with time zone,
	"merged_by" text,
	"self_merged" boolean NOT NULL,
	"first_review_at" timestamp (0) with time zone,
	"labels" text[] NOT NULL,
	"assignees" text[] NOT NULL,
	"files" text[] NOT NULL,
	"file_changes" json,
	"score" integer NOT NULL,
	"score_breakdown" json NOT NULL,
	"ruleset_version" integer NOT NULL,
	"facts_version" smallint DEFAULT 0 NOT NULL,
	"fetch_ticket" bigint NOT NULL,
	"fetched_at" timestamp with time zone DEFAULT now() NOT NULL,
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
	"compared_at" timestamp (0) with time zone,
	"import_cursor" text,
	"imported_at" timestamp with time zone,
	"left_at" timestamp with time zone,
	"fetch_ticket" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "repositories_organisation_id_id_pk" PRIMARY KEY("organisation_id","id"),
	CONSTRAINT "repositories_github_id" UNIQUE("organisation_id","github_id")
);
--> statement-breakpoint
CREATE TABLE "rescore_ranges" (
	"organisation_id" uuid NOT NULL,
	"from_id" uuid NOT NULL,
	"id" uuid DEFAULT gen_random_uuid() NOT NULL,
	"until_id" uuid,
	"is_batch" boolean NOT NULL,
	"urls_stale" boolean DEFAULT false NOT NULL,
	"ticket" bigint NOT NULL,
	"leased_until" timestamp with time zone,
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
	"definitions" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"rules" jsonb NOT NULL,
	"source" text NOT NULL,
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
	"changes" integer DEFAULT 1 NOT NULL,
	CONSTRAINT "score_changes_organisation_id_pull_request_id_id_pk" PRIMARY KEY("organisation_id","pull_request_id","id"),
	CONSTRAINT "score_changes_cause" CHECK ("score_changes"."cause" in ('pull_request', 'ruleset'))
);
--> statement-breakpoint
CREATE TABLE "service_reports" (
	"process" text PRIMARY KEY NOT NULL,
	"command" text NOT NULL,
	"place" text NOT NULL,
	"started_at" timestamp with time zone DEFAULT now() NOT NULL,
	"seen_at" timestamp with time zone DEFAULT now() NOT NULL,
	"variables" text[] NOT NULL,
	"salt" text NOT NULL,
	"hashes" json NOT NULL
);
--> statement-breakpoint
CREATE TABLE "sync_requests" (
	"organisation_id" uuid NOT NULL,
	"github_id" bigint NOT NULL,
	"node_id" text NOT NULL,
	"ticket" bigint NOT NULL,
	"min_source_updated_at" timestamp (0) with time zone,
	"requested_at" timestamp with time zone DEFAULT now() NOT NULL,
	"due_at" timestamp with time zone DEFAULT now(),
	"attempts" integer DEFAULT 0 NOT NULL,
	"last_error" text,
	"behind_since" timestamp with time zone,
	"behind_source_updated_at" timestamp (0) with time zone,
	"is_isolated" boolean DEFAULT false NOT NULL,
	"is_background" boolean DEFAULT false NOT NULL,
	CONSTRAINT "sync_requests_organisation_id_github_id_pk" PRIMARY KEY("organisation_id","github_id")
);
--> statement-breakpoint
CREATE TABLE "untracked_pull_requests" (
	"organisation_id" uuid NOT NULL,
	"github_id" bigint NOT NULL,
	"node_id" text NOT NULL,
	"author_github_id" bigint,
	"source_updated_at" timestamp (0) with time zone NOT NULL,
	CONSTRAINT "untracked_pull_requests_organisation_id_github_id_pk" PRIMARY KEY("organisation_id","github_id")
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
	"pull_request_node_id" text,
	"ticket" bigint NOT NULL,
	"received_at" timestamp with time zone DEFAULT now() NOT NULL,
	"applied_at" timestamp with time zone,
	CONSTRAINT "webhook_deliveries_organisation_id_guid_pk" PRIMARY KEY("organisation_id","guid"),
	CONSTRAINT "webhook_deliveries_state" CHECK ("webhook_deliveries"."state" in ('pending', 'applied', 'gone'))
);
--> statement-breakpoint
ALTER TABLE "access_tokens" ADD CONSTRAINT "access_tokens_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "access_tokens" ADD CONSTRAINT "access_tokens_organisation_id_user_id_users_organisation_id_id_fk" FOREIGN KEY ("organisation_id","user_id") REFERENCES "public"."users"("organisation_id","id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "check_runs" ADD CONSTRAINT "check_runs_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "check_runs" ADD CONSTRAINT "check_runs_organisation_id_pull_request_id_pull_requests_organisation_id_id_fk" FOREIGN KEY ("organisation_id","pull_request_id") REFERENCES "public"."pull_requests"("organisation_id","id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "content_versions" ADD CONSTRAINT "content_versions_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deleted_pull_requests" ADD CONSTRAINT "deleted_pull_requests_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "erased_people" ADD CONSTRAINT "erased_people_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
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
ALTER TABLE "untracked_pull_requests" ADD CONSTRAINT "untracked_pull_requests_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "users" ADD CONSTRAINT "users_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "webhook_deliveries" ADD CONSTRAINT "webhook_deliveries_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "access_tokens_token_hash" ON "access_tokens" USING btree ("token_hash");--> statement-breakpoint
CREATE INDEX "audit_events_by_time" ON "audit_events" USING btree ("organisation_id","happened_at");--> statement-breakpoint
CREATE INDEX "audit_events_of_removals" ON "audit_events" USING btree ("happened_at") WHERE "audit_events"."action" = 'organisation.remove';--> statement-breakpoint
CREATE INDEX "check_runs_failing" ON "check_runs" USING btree ("organisation_id") WHERE "check_runs"."last_error" is not null;--> statement-breakpoint
CREATE INDEX "members_by_creation" ON "members" USING btree ("organisation_id","created_at","id");--> statement-breakpoint
CREATE UNIQUE INDEX "organisations_login" ON "organisations" USING btree (lower("login"));--> statement-breakpoint
CREATE INDEX "organisations_by_turn" ON "organisations" USING btree ("sync_served_at");--> statement-breakpoint
CREATE INDEX "pull_requests_by_creation" ON "pull_requests" USING btree ("organisation_id","created_at","id");--> statement-breakpoint
CREATE INDEX "pull_requests_of_member" ON "pull_requests" USING btree ("organisation_id","member_id","created_at","id");--> statement-breakpoint
CREATE INDEX "pull_requests_by_number" ON "pull_requests" USING btree ("organisation_id","repository_id","number");--> statement-breakpoint
CREATE INDEX "pull_requests_by_fetch" ON "pull_requests" USING btree ("organisation_id","fetched_at");--> statement-breakpoint
CREATE INDEX "pull_requests_open" ON "pull_requests" USING btree ("organisation_id","id") WHERE "pull_requests"."state" in ('draft', 'open');--> statement-breakpoint
CREATE INDEX "sync_requests_by_due" ON "sync_requests" USING btree ("organisation_id","due_at");--> statement-breakpoint
CREATE INDEX "sync_requests_by_turn" ON "sync_requests" USING btree ("organisation_id","is_isolated","is_background","due_at");--> statement-breakpoint
CREATE INDEX "sync_requests_behind" ON "sync_requests" USING btree ("organisation_id","due_at") WHERE "sync_requests"."behind_since" is not null;--> statement-breakpoint
CREATE INDEX "untracked_pull_requests_by_author" ON "untracked_pull_requests" USING btree ("organisation_id","author_github_id");--> statement-breakpoint
CREATE UNIQUE INDEX "users_email" ON "users" USING btree ("organisation_id",lower("email"));--> statement-breakpoint
CREATE INDEX "users_by_name" ON "users" USING btree ("organisation_id","name" collate "und-x-icu","id");--> statement-breakpoint
CREATE INDEX "webhook_deliveries_pending" ON "webhook_deliveries" USING btree ("organisation_id","pull_request_github_id") WHERE "webhook_deliveries"."state" = 'pending';--> statement-breakpoint
CREATE INDEX "webhook_deliveries_by_receipt" ON "webhook_deliveries" USING btree ("organisation_id","received_at");--> statement-breakpoint
CREATE INDEX "webhook_deliveries_gone" ON "webhook_deliveries" USING btree ("organisation_id","received_at") WHERE "webhook_deliveries"."state" = 'gone';--> statement-breakpoint
-- PostgreSQL analyses a table after a tenth of it has changed. In a large one, its statistics would not know a new
-- organisation or a sudden backlog for weeks, and plans would expect one row of it. The cost of an analysis does not
-- grow with the table: it reads a sample.
ALTER TABLE "members" SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);--> statement-breakpoint
ALTER TABLE "repositories" SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);--> statement-breakpoint
ALTER TABLE "pull_requests" SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);--> statement-breakpoint
ALTER TABLE "untracked_pull_requests" SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);--> statement-breakpoint
ALTER TABLE "score_changes" SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);--> statement-breakpoint
ALTER TABLE "webhook_deliveries" SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);--> statement-breakpoint
ALTER TABLE "sync_requests" SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);--> statement-breakpoint
ALTER TABLE "audit_events" SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);--> statement-breakpoint
ALTER TABLE "check_runs" SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);
