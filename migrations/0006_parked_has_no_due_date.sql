ALTER TABLE "sync_requests" ALTER COLUMN "due_at" DROP NOT NULL;--> statement-breakpoint
UPDATE "sync_requests" SET "due_at" = NULL WHERE "due_at" = 'infinity';
