import { Loaded, type Schemas, useData } from '../api.tsx';
import { formatNumber, formatShare, formatTime } from '../format.ts';
import { PeriodPicker, periodOf } from '../period.tsx';
import type { Route } from '../route.ts';
import { type Column, Table } from '../table.tsx';

type Rule = Schemas['Rule'];

export function RulesView({ route }: { route: Route }) {
  const rules = useData('rules', (api, signal) => api.GET('/2026-12/rules', { signal }));
  const versions = useData('versions', (api, signal) => api.GET('/2026-12/rules/versions', { signal }));
  const query = { ...periodOf(route.query), of: 'repositories', by_rule: true } as const;
  const standings = useData(`points ${JSON.stringify(query)}`, (api, signal) =>
    api.GET('/2026-12/standings', { params: { query }, signal }),
  );
  return (
    <>
      <h1>Rules</h1>
      <div class="toolbar">
        <PeriodPicker route={route} />
      </div>
      <Loaded of={rules}>
        {({ data, meta }) => (
          <>
            <p>
              {meta.applied_at === null
                ? 'No rules have been applied yet.'
                : `Version ${formatNumber(meta.version)} has been in force since ${formatTime(meta.applied_at)}.`}
            </p>
            <Loaded of={standings}>{({ data: totals }) => <RuleList rules={data} totals={totals} />}</Loaded>
          </>
        )}
      </Loaded>
      <section aria-label="Versions">
        <Loaded of={versions}>
          {({ data }) => (
            <Table
              caption="Versions"
              columns={versionColumns}
              rows={data}
              keyOf={({ version }) => String(version)}
              empty="There is no version yet."
            />
          )}
        </Loaded>
      </section>
    </>
  );
}

const versionColumns: Column<{
  version: number;
  applied_at: number;
  applied_by: string;
  suspended_at: number | null;
}>[] = [
  { head: 'Version', isHead: true, cell: ({ version }) => formatNumber(version) },
  { head: 'Applied', cell: row => formatTime(row.applied_at) },
  { head: 'By', cell: row => <span dir="auto">{row.applied_by}</span> },
  { head: 'Suspended', cell: row => (row.suspended_at === null ? '–' : formatTime(row.suspended_at)) },
];

function RuleList({ rules, totals }: { rules: Rule[]; totals: Schemas['Standings'] }) {
  const points = new Map<string, number>();
  for (const { rules: given = [] } of totals.standings) {
    for (const { name, score } of given) points.set(name, (points.get(name) ?? 0) + score);
  }
  const all = [...points.values()].reduce((sum, score) => sum + Math.abs(score), 0);
  return (
    <>
      {totals.outdated > 0 && (
        <p class="notice">
          {formatNumber(totals.outdated)} scores have yet to be recalculated: the shares will change.
        </p>
      )}
      {rules.map(({ id, name, description, is_enabled: isEnabled, logic, created_at: since }) => {
        const score = points.get(name) ?? 0;
        return (
          <section key={id} aria-label={name}>
            <h2 dir="auto">{name}</h2>
            {description !== '' && <p dir="auto">{description}</p>}
            <p>
              <strong>{formatNumber(score)}</strong> points in the period, {formatShare(all === 0 ? 0 : score / all)} of
              all that rules gave and took. Since {formatTime(since)}.
              {!isEnabled && ' It is disabled and adds nothing.'}
            </p>
            <ul>
              {logic.map(({ expression, effect: { action, value } }, index) => (
                <li key={index}>
                  {action === 'ADD' ? 'adds' : 'subtracts'} <code>{value}</code> if <code>{expression}</code>
                </li>
              ))}
            </ul>
          </section>
        );
      })}
    </>
  );
}
