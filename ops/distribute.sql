-- Distributes an existing pullscore database over the nodes of a Citus cluster (13 or newer). Run it once, on the
-- coordinator, after `pullscore migrate`, while no replica runs:
--
--   psql -v ON_ERROR_STOP=1 -f ops/distribute.sql "$DATABASE_URL"
--
-- All or nothing: if a statement fails, the database stays as it was.

begin;

do $$
begin
  if to_regclass('pg_dist_partition') is null then
    raise exception 'This database has no Citus: run "create extension citus" on every node first.';
  end if;
  if to_regclass('public.organisations') is null then
    raise exception 'This database has no schema: run "pullscore migrate" first.';
  end if;
  if exists (select 1 from pg_dist_partition where logicalrelid = 'public.organisations'::regclass) then
    raise exception 'This database is distributed already.';
  end if;
end $$;

-- Otherwise the foreign keys below could not follow the distribution in one transaction.
set local citus.multi_shard_modify_mode to 'sequential';

-- A foreign key may only point from a distributed table to a reference table, or to a distributed table of the same
-- group. While some tables are local, none of ours would be allowed.
create temporary table foreign_keys on commit drop as
  select conrelid::regclass::text as table_name, conname as name, pg_get_constraintdef(oid) as definition
  from pg_constraint
  where contype = 'f' and connamespace = 'public'::regnamespace;

do $$
declare
  key record;
begin
  for key in select * from foreign_keys loop
    execute format('alter table %s drop constraint %I', key.table_name, key.name);
  end loop;
end $$;

-- Small, read by everyone: each node has all rows. They may have any unique key: organisations has (id), (github_id)
-- and (lower(login)), github_limits has (credential), service_reports has (process).
select create_reference_table('organisations');
select create_reference_table('github_limits');
select create_reference_table('service_reports');

-- The rows of one organisation are on one node. Citus demands that each unique key includes the distribution column:
--   pull_requests              (organisation_id, id), (organisation_id, github_id)
--   repositories               (organisation_id, id), (organisation_id, github_id)
--   members                    (organisation_id, id), (organisation_id, github_id)
--   users                      (organisation_id, id), (organisation_id, lower(email))
--   access_tokens              (organisation_id, id)
--   erased_people              (organisation_id, id_hash)
--   untracked_pull_requests    (organisation_id, github_id)
--   deleted_pull_requests      (organisation_id, github_id)
--   rules                      (organisation_id, id), (organisation_id, name)
--   rulesets                   (organisation_id, version)
--   content_versions           (organisation_id)
--   rescore_ranges             (organisation_id, from_id)
--   score_changes              (organisation_id, pull_request_id, id)
--   changes                    (organisation_id, transaction, from_id)
--   webhook_deliveries         (organisation_id, guid)
--   sync_requests              (organisation_id, github_id)
--   check_runs                 (organisation_id, pull_request_id)
--   audit_events               (organisation_id, id)
select create_distributed_table('pull_requests', 'organisation_id', colocate_with => 'none');
select create_distributed_table('repositories', 'organisation_id', colocate_with => 'pull_requests');
select create_distributed_table('members', 'organisation_id', colocate_with => 'pull_requests');
select create_distributed_table('users', 'organisation_id', colocate_with => 'pull_requests');
select create_distributed_table('access_tokens', 'organisation_id', colocate_with => 'pull_requests');
select create_distributed_table('erased_people', 'organisation_id', colocate_with => 'pull_requests');
select create_distributed_table('untracked_pull_requests', 'organisation_id', colocate_with => 'pull_requests');
select create_distributed_table('deleted_pull_requests', 'organisation_id', colocate_with => 'pull_requests');
select create_distributed_table('rules', 'organisation_id', colocate_with => 'pull_requests');
select create_distributed_table('rulesets', 'organisation_id', colocate_with => 'pull_requests');
select create_distributed_table('content_versions', 'organisation_id', colocate_with => 'pull_requests');
select create_distributed_table('rescore_ranges', 'organisation_id', colocate_with => 'pull_requests');
select create_distributed_table('score_changes', 'organisation_id', colocate_with => 'pull_requests');
select create_distributed_table('changes', 'organisation_id', colocate_with => 'pull_requests');
select create_distributed_table('webhook_deliveries', 'organisation_id', colocate_with => 'pull_requests');
select create_distributed_table('sync_requests', 'organisation_id', colocate_with => 'pull_requests');
select create_distributed_table('check_runs', 'organisation_id', colocate_with => 'pull_requests');
select create_distributed_table('audit_events', 'organisation_id', colocate_with => 'pull_requests');

-- The coordinator still has the rows from before, which nobody sees and no `member erase` removes.
do $$
begin
  perform truncate_local_data_after_distributing_table(logicalrelid) from pg_dist_partition;
end $$;

-- The sequence of tickets and the table of applied migrations stay on the coordinator, to which replicas connect.

-- All of them: each points to organisations, or carries organisation_id into a table of the same group.
do $$
declare
  key record;
begin
  for key in select * from foreign_keys loop
    execute format('alter table %s add constraint %I %s', key.table_name, key.name, key.definition);
  end loop;
end $$;

commit;
