DROP INDEX "pull_requests_of_repository";--> statement-breakpoint
CREATE INDEX "pull_requests_by_number" ON "pull_requests" USING btree ("organisation_id","repository_id","number");