CREATE TABLE "service_reports" (
	"process" text PRIMARY KEY NOT NULL,
	"started_at" timestamp with time zone DEFAULT now() NOT NULL,
	"variables" text[] NOT NULL
);
