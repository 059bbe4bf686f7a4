CREATE TABLE "untracked_pull_requests" (
	"organisation_id" uuid NOT NULL,
	"github_id" bigint NOT NULL,
	"node_id" text NOT NULL,
	"author_github_id" bigint NOT NULL,
	CONSTRAINT "untracked_pull_requests_organisation_id_github_id_pk" PRIMARY KEY("organisation_id","github_id")
);
--> statement-breakpoint
ALTER TABLE "webhook_deliveries" DROP CONSTRAINT "webhook_deliveries_state";--> statement-breakpoint
ALTER TABLE "github_limits" ALTER COLUMN "blocked_until" SET DEFAULT now();--> statement-breakpoint
ALTER TABLE "github_limits" ADD COLUMN "points" integer;--> statement-breakpoint
ALTER TABLE "github_limits" ADD COLUMN "remaining_points" integer;--> statement-breakpoint
ALTER TABLE "github_limits" ADD COLUMN "reset_at" timestamp (0) with time zone;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "sync_served_at" timestamp with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "sync_leased_until" timestamp with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "reconcile_again_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "reconcile_cursor" text;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "members_due_at" timestamp with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
ALTER TABLE "organisations" ADD COLUMN "swept_at" timestamp with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD COLUMN "fetched_at" timestamp with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
ALTER TABLE "repositories" ADD COLUMN "reconcile_cursor" text;--> statement-breakpoint
ALTER TABLE "repositories" ADD COLUMN "reconcile_until" timestamp (0) with time zone;--> statement-breakpoint
ALTER TABLE "sync_requests" ADD COLUMN "min_source_updated_at" timestamp (0) with time zone;--> statement-breakpoint
ALTER TABLE "sync_requests" ADD COLUMN "behind_since" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "sync_requests" ADD COLUMN "behind_source_updated_at" timestamp (0) with time zone;--> statement-breakpoint
ALTER TABLE "sync_requests" ADD COLUMN "is_isolated" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "sync_requests" ADD COLUMN "is_background" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "untracked_pull_requests" ADD CONSTRAINT "untracked_pull_requests_organisation_id_organisations_id_fk" FOREIGN KEY ("organisation_id") REFERENCES "public"."organisations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "untracked_pull_requests_by_author" ON "untracked_pull_requests" USING btree ("organisation_id","author_github_id");--> statement-breakpoint
CREATE INDEX "pull_requests_by_fetch" ON "pull_requests" USING btree ("organisation_id","fetched_at");--> statement-breakpoint
CREATE INDEX "webhook_deliveries_gone" ON "webhook_deliveries" USING btree ("organisation_id","received_at") WHERE "webhook_deliveries"."state" = 'gone';--> statement-breakpoint
ALTER TABLE "webhook_deliveries" ADD CONSTRAINT "webhook_deliveries_state" CHECK ("webhook_deliveries"."state" in ('pending', 'applied', 'gone'));