-- So that re-scoring changes no index: see docs/decisions/0027-half-full-pages.md. Rows that are stored already get such pages
-- as they are updated.
ALTER TABLE "pull_requests" SET (fillfactor = 50);
