import { Loaded, type Schemas, useData } from '../api.tsx';
import { formatNumber, formatTime, webAddress } from '../format.ts';
import { type Column, Table } from '../table.tsx';

type Health = Schemas['Health'];

export function HealthView() {
  const health = useData('health', (api, signal) => api.GET('/2026-12/health', { signal }));
  return (
    <>
      <h1>Health</h1>
      <div class="toolbar">
        <button type="button" onClick={health.reload}>
          Look again
        </button>
      </div>
      <Loaded of={health}>{({ data }) => <Figures data={data} />}</Loaded>
    </>
  );
}

function Figures({ data }: { data: Health }) {
  const warnings = [
    data.rules_suspended_by !== null && `The rules in force are suspended: ${data.rules_suspended_by}.`,
    !data.webhooks_enabled && 'Webhooks are turned off: changes are seen at the next comparison only.',
    data.comparison_failure !== null && `The last comparison with GitHub failed: ${data.comparison_failure}`,
    data.failing > 0 && `${formatNumber(data.failing)} pull requests cannot be fetched; see below.`,
  ].filter(warning => warning !== false);
  const time = (seconds: number | null) => (seconds === null ? 'never' : formatTime(seconds));
  const figures: [name: string, value: string][] = [
    ['Waiting to be fetched', formatNumber(data.waiting)],
    ['The first of them is due for', `${formatNumber(data.overdue_seconds)} s`],
    ['Waiting until GitHub shows what it announced', formatNumber(data.behind)],
    ['Failing', formatNumber(data.failing)],
    ['Parked, of those that fail', formatNumber(data.parked)],
    ['Scores to recalculate', formatNumber(data.outdated)],
    ['Last webhook', time(data.last_delivery_at)],
    ['Last comparison with GitHub', time(data.compared_at)],
  ];
  return (
    <>
      {warnings.length === 0 ? (
        <p class="good">Nothing fails.</p>
      ) : (
        <ul class="notice bad plain">
          {warnings.map(warning => (
            <li key={warning} dir="auto">
              {warning}
            </li>
          ))}
        </ul>
      )}
      <section aria-label="Figures">
        <Table caption={data.organisation} columns={figureColumns} rows={figures} keyOf={figure => figure.join()} />
      </section>
      {data.failures.length > 0 && (
        <section aria-label="Failures">
          <Table
            caption="Pull requests that fail"
            columns={failureColumns}
            rows={data.failures}
            keyOf={({ pull_request: name, reason, attempts }) => `${name} ${attempts} ${reason}`}
          />
        </section>
      )}
    </>
  );
}

const figureColumns: Column<[name: string, value: string]>[] = [
  { head: 'What', isHead: true, cell: ([name]) => name },
  { head: 'How it is', isNumber: true, cell: ([, value]) => value },
];

const failureColumns: Column<Health['failures'][number]>[] = [
  {
    head: 'Pull request',
    isHead: true,
    cell: ({ pull_request: name, url }) => {
      const address = webAddress(url ?? '');
      return address === undefined ? (name ?? 'unknown') : <a href={address}>{name ?? address}</a>;
    },
  },
  { head: 'Why', width: 'wide', cell: ({ reason }) => <span dir="auto">{reason}</span> },
  { head: 'Tries', width: 'narrow', isNumber: true, cell: ({ attempts }) => formatNumber(attempts) },
  { head: 'Next', cell: ({ due_at: due }) => (due === null ? 'parked' : formatTime(due)) },
];
