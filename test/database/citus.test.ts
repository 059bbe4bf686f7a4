import { expect, test } from 'vitest';
import { refusalOf } from '../support/citus.ts';

test.each([
  [
    'an empty select list',
    'select 1 where exists (select from taken where place = 1)',
    'select 1 where exists (select 1 from taken where place = 1)',
  ],
  [
    'a subquery that refers to a reference table outside',
    `select oldest.* from organisations cross join lateral (
      select guid from webhook_deliveries where organisation_id = organisations.id and received_at < now() limit 5
    ) as oldest`,
    'select guid from webhook_deliveries where organisation_id = $1 and received_at < now() limit 5',
  ],
  [
    'a subquery that refers to a reference table outside',
    'select id from organisations where exists (select 1 from "sync_requests" where ("sync_requests"."organisation_id" = "organisations"."id"))',
    'select id from organisations where id in (select organisation_id from sync_requests where due_at <= now())',
  ],
  [
    'an outer join, or a subquery, by the organisation of a union',
    `select 1 from (select organisation_id, id from a union select organisation_id, id from b) as candidates
      join c on c.organisation_id = candidates.organisation_id left join d on d.organisation_id = candidates.organisation_id`,
    `select 1 from (select organisation_id, id from a union select organisation_id, id from b) as candidates
      join c on c.organisation_id = candidates.organisation_id left join d on d.organisation_id = c.organisation_id`,
  ],
  [
    'RETURNING with a function that is not immutable',
    'update members set left_at = now() where organisation_id = $1 returning left_at = now()',
    'update members set left_at = now() where organisation_id = $1 returning left_at',
  ],
  [
    'RETURNING with a function that is not immutable',
    'with gone as (delete from a where organisation_id = $1 returning due_at::text) select 1 from gone',
    'with gone as (delete from a where organisation_id = $1 returning due_at) select due_at::text from gone',
  ],
  [
    'ON CONFLICT with a function that is not immutable',
    'insert into a values (now()) on conflict (id) do update set due_at = now()',
    'insert into a values (now()) on conflict (id) do update set due_at = excluded.due_at',
  ],
  [
    'ON CONFLICT with a function that is not immutable',
    "insert into a values ($1) on conflict (id) do update set due_at = excluded.due_at + interval '1 minute'",
    "insert into a values ($1) on conflict (id) do update set due_at = (excluded.due_at at time zone 'UTC' + interval '1 minute') at time zone 'UTC'",
  ],
  [
    'SET with a volatile function, or a stable one of a column or in CASE or COALESCE',
    "update sync_requests set ticket = nextval('tickets') where organisation_id = $1",
    'update sync_requests set ticket = $2 where organisation_id = $1',
  ],
  [
    'SET with a volatile function, or a stable one of a column or in CASE or COALESCE',
    'update access_tokens set revoked_at = coalesce(revoked_at, now()) where organisation_id = $1',
    'update access_tokens set revoked_at = now() where organisation_id = $1 and revoked_at is null',
  ],
  [
    'SET with a volatile function, or a stable one of a column or in CASE or COALESCE',
    'update sync_requests set due_at = now() + make_interval(secs => waiting.seconds) from waiting where organisation_id = $1',
    'update sync_requests set due_at = now() + make_interval(secs => $2) where organisation_id = $1',
  ],
  [
    'SET with a volatile function, or a stable one of a column or in CASE or COALESCE',
    "update sync_requests set due_at = due_at - interval '1 minute' where organisation_id = $1",
    "update sync_requests set due_at = now() - interval '1 minute' where organisation_id = $1",
  ],
  [
    'a parameter whose type fits two functions',
    'select pg_terminate_backend($1)',
    'select pg_terminate_backend($1::int)',
  ],
  [
    'a change of a table in one message with others',
    'begin; create index by_name on members using btree (organisation_id, name)',
    'create index by_name on members using btree (organisation_id, name)',
  ],
  [
    'a subquery within VALUES',
    'insert into audit_events (organisation) values ((select login from organisations where id = $1))',
    'insert into audit_events (organisation) values ($1)',
  ],
  [
    'a lock on rows without the organisation',
    'select * from access_tokens where id = $1 for update',
    'select * from access_tokens where organisation_id = $1 and id = $2 for update',
  ],
  ['a notification from any node', `select pg_notify('a', 'b') from requested`, `select pg_notify('a', 'b')`],
])('the check finds a statement that Citus refuses: %s (case %#)', (reason, refused, accepted) => {
  expect(refusalOf(refused)).toBe(reason);
  expect(refusalOf(accepted)).toBeUndefined();
});
