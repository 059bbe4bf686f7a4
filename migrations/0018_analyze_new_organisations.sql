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
ALTER TABLE "audit_events" SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);
