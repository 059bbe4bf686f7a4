/** A small change of a statement, or of a condition around it. One of the tests must fail. */
export interface Change {
  /** One of those in ARCHITECTURE.md. */
  guarantee: string;
  file: string;
  /** Occurs in the file exactly once. */
  from: string;
  to: string;
  tests: readonly string[];
}

type Pair = readonly [from: string, to: string];

const sync = (...names: string[]) => names.map(name => `test/sync/${name}.test.ts`);

const of = (guarantee: string, file: string, tests: readonly string[], pairs: readonly Pair[]): Change[] =>
  pairs.map(([from, to]) => ({ guarantee, file: `src/${file}`, tests, from, to }));

const savedOnlyIf = `sql\`(\${pullRequests.sourceUpdatedAt}, \${pullRequests.fetchTicket})
        <= (excluded.source_updated_at, excluded.fetch_ticket)\``;

const coveredOnlyIf = 'return isReached && ticket < fetchTicket;';

export const changes: readonly Change[] = [
  ...of('Order', 'database/fetched-pull-requests.ts', sync('order', 'races'), [
    ["\n    .for('update');", ';'],
    [savedOnlyIf, 'sql`true`'],
    [savedOnlyIf, 'sql`${pullRequests.sourceUpdatedAt} <= excluded.source_updated_at`'],
    [savedOnlyIf, 'sql`${pullRequests.fetchTicket} <= excluded.fetch_ticket`'],
    ["['organisationId', 'id', 'githubId', 'changedBy']", "['organisationId', 'id', 'githubId', 'changedBy', 'title']"],
  ]),
  ...of('Order', 'database/members.ts', sync('members', 'order'), [
    ['<= excluded.fetch_ticket`', '<= excluded.fetch_ticket or true`'],
    [', lte(members.fetchTicket, ticket)));', '));'],
  ]),
  ...of('Order', 'database/repositories.ts', sync('order', 'races', 'renaming'), [
    ['sql`${fetchTicket} <= excluded.fetch_ticket`', 'sql`true`'],
    ['stored.fetchTicket <= ticket && (', '('],
    ['and repositories.fetch_ticket < ${ticket}`', 'and false`'],
  ]),

  ...of('Floor', 'database/sync-requests.ts', sync('lag', 'races'), [
    [coveredOnlyIf, 'return ticket < fetchTicket;'],
    ['floor <= (updatedAt', 'floor < (updatedAt'],
    [coveredOnlyIf, 'return isReached;'],
    ['githubIdsOf(covered.filter(({ isTooEarly }) => !isTooEarly))', 'githubIdsOf(covered)'],
    ['least(${syncRequests.dueAt}, ', 'greatest(${syncRequests.dueAt}, '],
    ['and behind_source_updated_at is not distinct from waiting.behind then', 'then'],
    ['due_at = waiting.due_at', 'due_at = waiting.begun_at'],
    ['sql`behind_since is not null and', 'sql`false and'],
    [".set({ state: 'gone', appliedAt", ".set({ state: 'applied', appliedAt"],
    ['is_candidate desc, place, is_background', 'is_candidate desc, is_background'],
    [' and last_error is null and', ' and'],
  ]),
  ...of(
    'Floor',
    'database/webhook-deliveries.ts',
    [...sync('lag', 'races'), 'test/webhooks/deliveries.test.ts'],
    [
      [
        'greatest(sync_requests.min_source_updated_at, excluded.min_source_updated_at)',
        'excluded.min_source_updated_at',
      ],
      ['when excluded.min_source_updated_at > sync_requests.min_source_updated_at', 'when false'],
      ['or excluded.due_at > excluded.requested_at then null', 'then null'],
      ['now() + make_interval(secs => max(delay_seconds) over same)', 'now()'],
      ['max(delay_seconds) over same', 'delay_seconds'],
      ['then greatest(sync_requests.due_at, excluded.due_at)', 'then excluded.due_at'],
    ],
  ),
  ...of('Floor', 'database/background-requests.ts', sync('lag'), [
    ['greatest(sync_requests.due_at, excluded.due_at), behind_since', 'sync_requests.due_at, behind_since'],
    ['excluded.due_at), behind_since = null`', 'excluded.due_at)`'],
  ]),
  ...of('Floor', 'sync/decide-next-try.ts', sync('decide-next-try', 'lag'), [
    ['sourceUpdatedAt >= (request.minSourceUpdatedAt ?? 0)', 'sourceUpdatedAt > (request.minSourceUpdatedAt ?? 0)'],
    ['behindSourceUpdatedAt === sourceUpdatedAt ? (behindSeconds ?? 0) : 0', 'behindSeconds ?? 0'],
    ['age > maxAgeSeconds || ', ''],
    ['(sourceUpdatedAt !== null && seconds >= maxStaleSeconds)', 'seconds >= maxStaleSeconds'],
  ]),

  ...of('Deletion', 'sync/sync-pull-requests.ts', sync('deletion', 'order'), [
    ['tombstone.ticket < ticket && ', ''],
    [' && tombstone.sourceUpdatedAt < sourceUpdatedAt)', ')'],
    ['tombstone.sourceUpdatedAt < sourceUpdatedAt', 'tombstone.sourceUpdatedAt <= sourceUpdatedAt'],
  ]),
  ...of('Deletion', 'sync/remove-pull-request.ts', sync('deletion'), [
    ["await lockOrganisation(executor, organisationId, 'exclusive');", ''],
  ]),

  ...of(
    'Deliveries',
    'database/webhook-deliveries.ts',
    ['test/webhooks/deliveries.test.ts', 'test/webhooks/intake.test.ts', ...sync('races')],
    [
      ['order by github_id limit 1', 'order by github_id nulls first limit 1'],
      ["\n      where webhook_deliveries.state <> 'applied'\n", '\n'],
      ["webhook_deliveries.state <> 'applied'", "webhook_deliveries.state = 'pending'"],
      ['greatest(sync_requests.ticket, excluded.ticket)', 'excluded.ticket'],
      ['set ticket = greatest', 'set node_id = excluded.node_id, ticket = greatest'],
      ['drawn where webhooks_enabled and place', 'drawn where place'],
      ['(github_id is null and lower(', '(lower('],
      ['lower(organisations.login) = lower(given.login)', 'organisations.login = given.login'],
      ['.onConflictDoNothing()\n    .returning({ guid', '.returning({ guid'],
    ],
  ),

  ...of('Membership', 'database/members.ts', sync('members', 'order'), [
    ['        leftAt: null,\n', ''],
    ['await executor.update(members).set({ fetchTicket: ticket }).where(isOther);', ''],
    ['isUnlisted, lte(members.fetchTicket, ticket)', 'isUnlisted'],
    ['(${isUnlisted}) = (${members.leftAt} is null)', '${isUnlisted} and ${members.leftAt} is null'],
    ['(${isUnlisted}) = (${members.leftAt} is null)', 'not (${isUnlisted}) and ${members.leftAt} is not null'],
    ['<> all(', '<> any('],
  ]),
  ...of('Membership', 'database/untracked-pull-requests.ts', sync('members'), [
    ['        isNull(members.leftAt),\n', ''],
    ['        nodeId: sql`excluded.node_id`,\n', ''],
  ]),
  ...of('Membership', 'database/background-requests.ts', sync('members'), [['true, ${floor}', 'false, ${floor}']]),
  ...of('Membership', 'sync/sync-members.ts', sync('members', 'order'), [
    ['isPresent = member !== undefined && member.leftAt === null', 'isPresent = member !== undefined'],
  ]),

  ...of('Repositories', 'database/repositories.ts', sync('transfers'), [
    ['leftAt: null, ignoredBecause', 'ignoredBecause'],
    ['.set({ leftAt: sql`now()`, ignoredBecause: null, fetchTicket: ticket })', '.set({ leftAt: sql`now()` })'],
    [', lt(repositories.fetchTicket, ticket)))', '))'],
    [', isExpected, lt(fetchTicket, ticket)', ', lt(fetchTicket, ticket)'],
    ['.orderBy(sql`random()`)', '.orderBy(fetchTicket)'],
  ]),
  ...of('Repositories', 'database/repositories.ts', sync('ignore-repositories'), [
    ['row !== undefined && (isRenamed(row, ticket, value) || hasReturned(row, ticket))', 'false'],
    ['sql`${fetchTicket} <= excluded.fetch_ticket`', 'sql`true`'],
  ]),
  ...of('Repositories', 'database/background-requests.ts', sync('transfers'), [
    [', isInPresentRepository(organisationId)', ''],
  ]),

  ...of('Fairness', 'database/sync-requests.ts', sync('request-worker', 'loops', 'races'), [
    ['order: organisations.syncServedAt', 'order: organisations.id'],
    ['hasShown ? { shownAt: sql`${organisations.syncServedAt}` } : {}', '{}'],
    ['place, is_background, turn_at limit', 'place, is_background, due_at limit'],
    ['place, is_background, turn_at limit', 'place, turn_at limit'],
    ['place, is_background, turn_at limit', 'place limit'],
    ['is_candidate desc, place', 'place'],
    ['coalesce(due_at <= failed_at, false)', 'false'],
    ['not is_candidate and coalesce(due_at', 'coalesce(due_at'],
    ['> failed_at, false)', 'is not null, false)'],
    ['await executor.update(syncRequests).set({ isCandidate: false }).where(rest);', ''],
  ]),
  ...of('Fairness', 'database/comparisons.ts', sync('comparison', 'comparison-turns'), [
    ['${secondsFromNow(seconds)}, ${earliest}', '${earliest}'],
    ['nullif(${comparisonAgainAt}, least(${comparisonAgainAt}, now()))', '${comparisonAgainAt}'],
    ['least(${comparisonDueAt}, nullif(${comparisonLeasedUntil}, ${notLeased}))', '${comparisonDueAt}'],
    ['comparisonDueAt: secondsFromNow(maxComparisonSeconds),', 'comparisonDueAt: secondsFromNow(leaseSeconds),'],
    ['greatest(now(), ${comparisonNotBefore}, ', 'greatest(now(), '],
    ['greatest(${notBefore}, least(${comparisonDueAt}, ${again}))', 'least(${comparisonDueAt}, ${again})'],
  ]),

  ...of('Scores', 'database/rescore-ranges.ts', sync('rescore', 'races', 'expensive-rules'), [
    ['          and pull_requests.fetch_ticket = scores.fetch_ticket\n', ''],
    ['limit ${batchSize * splitSize + 1}', 'limit ${batchSize * splitSize}'],
    ['    eq(rescoreRanges.id, id),\n', ''],
    [' from saved where from_score <> score', ' from saved'],
    ['      ticket: remainder.ticket,\n', ''],
    ["    .limit(1)\n    .for('update');", '    .limit(1);'],
    [".for('update', { skipLocked: true })", ".for('update')"],
    ["await lockOrganisation(executor, organisationId, 'shared');", ''],
    ['lt(id, untilId ?? afterAllIds)', 'sql`${id} <= ${untilId ?? afterAllIds}`'],
  ]),
  ...of('Scores', 'database/backlog.ts', sync('rescore'), [
    ['(count(*) filter (where fetch_ticket < ${ticket}))::int as outdated', 'count(*)::int as outdated'],
    ['isAhead = sql`id > ${step.last}`', 'isAhead = sql`id >= ${step.last}`'],
    [' and id < ${untilId ?? afterAllIds}\n          order', ' order'],
  ]),
  ...of('Scores', 'database/check-runs.ts', sync('check-runs'), [
    ['result.isFinal && rowVersions.get(row.pullRequestId) === row.rowVersion', 'result.isFinal'],
  ]),
  ...of('Scores', 'database/fetched-pull-requests.ts', sync('check-runs'), [
    ['before.closedAt !== null && before.closedAt !== row.closedAt', 'false'],
  ]),
  ...of('Scores', 'scorer/rescore.ts', sync('rescore', 'expensive-rules'), [
    ["lockOrganisation(executor, organisationId, 'shared')", "lockOrganisation(executor, organisationId, 'exclusive')"],
    ['if (!isAsRead(breakdown, former.breakdown) || !isAsRead(reviewScores, former.reviewScores)) {', 'if (true) {'],
  ]),

  ...of('Points', 'database/github-rate-limits.ts', sync('share-github-points'), [
    ['and(eq(id, organisationId), isOfThisHour)', 'eq(id, organisationId)'],
    ['${pointsUsed} * ((${isOfHour(end)}) is true)::int', '${pointsUsed}'],
    ['${end} - make_interval(secs => ${toleranceSeconds})', '${end}'],
  ]),

  ...of('Leases', 'database/sync-requests.ts', sync('request-worker', 'races'), [
    ['tickets.get(githubId) === ticket', 'tickets.has(githubId)'],
  ]),
  ...of('Leases', 'database/backlog.ts', sync('request-worker', 'races'), [
    [', ticket: sql`greatest(${ticket}, ${newTicket}::bigint)` }', ' }'],
  ]),
  ...of('Leases', 'database/lease.ts', sync('comparison', 'comparison-turns', 'request-worker', 'prune'), [
    ['[column]: secondsFromNow(seconds)', '[column]: secondsFromNow(15)'],
    ['and(lte(organisations[column], sql`now()`), isFree', 'and(isFree'],
    ['order = organisations[column]', 'order = organisations.id'],
    ['and(eq(id, next.id), isNext)', 'eq(id, next.id)'],
    ['eq(organisations.id, lease.organisationId), isHeld', 'eq(organisations.id, lease.organisationId)'],
  ]),
  ...of('Leases', 'sync/renew-lease.ts', sync('comparison', 'request-worker', 'prune'), [
    ['.then(() => moveLease(executor, lease))', ''],
  ]),

  ...of('Bounds', 'database/old-rows.ts', sync('prune'), [
    ["(state <> 'pending' or received_at < now() - ${kept.pendingDeliveries}::interval)", 'true'],
    ['or received_at < now() - ${kept.pendingDeliveries}::interval', ''],
    ['happened_at < now() - ${kept.syncEvents}::interval', 'true'],
    [
      "(action = 'pull_request.sync' or happened_at < now() - ${kept.auditEvents}::interval)",
      "action = 'pull_request.sync'",
    ],
    ['max(changed_at) over (partition by pull_request_id order by id)', 'changed_at'],
    ['first_value(from_score)', 'last_value(from_score)'],
    ['where place > ${keptChanges}\n', '\n'],
    ['rows.filter(row => !row.is_last)', 'rows'],
    ['foldedId: isLast ? null : until', 'foldedId: null'],
  ]),
  ...of('Bounds', 'sync/prune.ts', sync('prune'), [["deliveries: '8 days'", "deliveries: '3 days'"]]),

  ...of(
    'Text',
    'text/storable.ts',
    [...sync('identity'), 'test/scoring/text-operations.test.ts'],
    [
      [".replaceAll('\\0', '\\uFFFD')", ''],
      [".replace(/\\p{Surrogate}/gu, '\\uFFFD')", ''],
    ],
  ),
  ...of('Text', 'database/rules.ts', sync('rescore'), [
    ["typeof value === 'string' ? storable(value) : value", 'value'],
  ]),
  ...of(
    'Text',
    'database/sync-requests.ts',
    [...sync('request-worker'), 'test/webhooks/deliveries.test.ts'],
    [['reason === null ? null : storable(reason)', 'reason']],
  ),
  ...of(
    'Text',
    'database/background-requests.ts',
    ['test/webhooks/deliveries.test.ts'],
    [
      ['sql`labels @> array[${storable(former.label)}]`', 'sql`labels @> array[${former.label}]`'],
      ['sql`milestone = ${storable(former.milestone)}`', 'sql`milestone = ${former.milestone}`'],
    ],
  ),
];
