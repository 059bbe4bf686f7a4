import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, Failure, type Schemas, tokenEnded, useSession } from '../api.tsx';
import { Bars } from '../chart.tsx';
import { formatChange, formatNumber, formatShare } from '../format.ts';
import { type Column, Table } from '../table.tsx';

type Plan = Schemas['Plan'];

/** What the service takes. */
const maxFileBytes = 2_000_000;

/** @throws Error that says why it is not a rules file */
async function readText(file: File): Promise<string> {
  if (file.size > maxFileBytes) throw new Error(`${file.name} is larger than 2 MB. Rules files are smaller.`);
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes('\0')) return text;
  } catch {
    // Said below.
  }
  throw new Error(`${file.name} is not a text in UTF-8. Choose a rules file, which is YAML.`);
}

export function TryRulesView() {
  const { api, end } = useSession();
  const [text, setText] = useState('');
  const [failure, setFailure] = useState<Error>();
  const [plan, setPlan] = useState<Plan>();
  const [running, setRunning] = useState<AbortController>();
  const seconds = useSeconds(running);
  useEffect(() => () => running?.abort(), [running]);

  const take = async (file: File | undefined) => {
    if (file === undefined) return;
    try {
      setText(await readText(file));
      setFailure(undefined);
    } catch (error) {
      setFailure(error as Error);
    }
  };
  const run = async () => {
    const stopping = new AbortController();
    setRunning(stopping);
    setFailure(undefined);
    setPlan(undefined);
    try {
      const { data, error, response } = await api.POST('/2026-12/rules/plan', {
        params: { query: { audit: true } },
        headers: { 'content-type': 'application/yaml' },
        body: text,
        bodySerializer: body => body,
        signal: stopping.signal,
      });
      if (response.status === 401) return end(tokenEnded);
      if (data === undefined) throw new ApiError(response, error);
      if (!stopping.signal.aborted) setPlan(data.data);
    } catch (error) {
      if (!stopping.signal.aborted) {
        setFailure(error instanceof TypeError ? new Error('The service cannot be reached.') : (error as Error));
      }
    } finally {
      setRunning(current => (current === stopping ? undefined : current));
    }
  };
  return (
    <>
      <h1>Try rules</h1>
      <p>See what a rules file would change. Nothing is saved.</p>
      <form
        onSubmit={event => {
          event.preventDefault();
          void run();
        }}
        onDragOver={event => event.preventDefault()}
        onDrop={event => {
          event.preventDefault();
          void take(event.dataTransfer?.files[0]);
        }}
      >
        <div class="toolbar">
          <label>
            Rules file
            <input
              type="file"
              accept=".yaml,.yml"
              onChange={({ currentTarget }) => void take(currentTarget.files?.[0])}
            />
          </label>
          <button type="submit" class="primary" disabled={running !== undefined || text.trim() === ''}>
            Try
          </button>
          {running !== undefined && (
            <button
              type="button"
              onClick={() => {
                running.abort();
                setRunning(undefined);
              }}
            >
              Stop
            </button>
          )}
        </div>
        <label>
          Or drop it here, or type:
          <textarea
            class="rules"
            rows={14}
            spellcheck={false}
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
          />
        </label>
      </form>
      <p role="status">
        {running !== undefined && `Scoring all pull requests by these rules: ${formatNumber(seconds)} s.`}
      </p>
      {failure !== undefined && <Failure error={failure} />}
      {plan !== undefined && <PlanResult plan={plan} />}
    </>
  );
}

/** Since the value was set. */
function useSeconds(running: unknown): number {
  const [seconds, setSeconds] = useState(0);
  const started = useRef(0);
  useEffect(() => {
    setSeconds(0);
    if (running === undefined) return;
    started.current = Date.now();
    const timer = setInterval(() => setSeconds(Math.round((Date.now() - started.current) / 1000)), 1000);
    return () => clearInterval(timer);
  }, [running]);
  return seconds;
}

function PlanResult({ plan }: { plan: Plan }) {
  const { pull_requests: count, scores, histogram, rules, members, movers, audit } = plan;
  const labels = histogram.map(({ from, to }) =>
    from === null ? `< ${formatNumber(to ?? 0)}` : to === null ? `≥ ${formatNumber(from)}` : formatNumber(from),
  );
  return (
    <>
      <h2>What would change</h2>
      <p>
        <strong>{formatNumber(count.changed)}</strong> of {formatNumber(count.total)} scores:{' '}
        {formatNumber(count.raised)} rise, {formatNumber(count.lowered)} fall. The sum goes from{' '}
        {formatNumber(scores.before.sum)} to {formatNumber(scores.after.sum)}.
      </p>
      <div class="beside">
        <section aria-label="Chart of scores">
          <Bars
            label="Pull requests by score, before and after"
            labels={labels}
            series={[
              { name: 'Before', values: histogram.map(({ before }) => before) },
              { name: 'After', values: histogram.map(({ after }) => after) },
            ]}
            vertical
            isStacked={false}
          />
        </section>
        <section aria-label="Scores">
          <Table
            caption="Pull requests by score"
            columns={[
              { head: 'Score', isHead: true, cell: ([label]) => label },
              { head: 'Before', isNumber: true, cell: ([, { before }]) => formatNumber(before) },
              { head: 'After', isNumber: true, cell: ([, { after }]) => formatNumber(after) },
            ]}
            rows={histogram.map((bin, index) => [labels[index] ?? '', bin] as const)}
            keyOf={([label]) => label}
            empty="There is no pull request yet."
          />
        </section>
      </div>
      <section aria-label="Rules">
        <Table caption="Rules" columns={ruleColumns} rows={rules} keyOf={({ name, status }) => `${name} ${status}`} />
      </section>
      <section aria-label="Members">
        <Table caption="Members" columns={memberColumns} rows={members} keyOf={({ id }) => id} empty="Nobody." />
      </section>
      <section aria-label="Pull requests">
        <Table
          caption="Pull requests that change most"
          columns={moverColumns}
          rows={[...movers.raised, ...movers.lowered]}
          keyOf={({ id }) => id}
          empty="None."
        />
      </section>
      {audit !== null && (
        <section aria-label="Audit">
          <Table caption="How it can be gamed" columns={auditColumns} rows={audit.ways} keyOf={({ way }) => way} />
        </section>
      )}
    </>
  );
}

const pointsOf = (side: { points: number } | null) => (side === null ? '–' : formatNumber(side.points));

const ruleColumns: Column<Plan['rules'][number]>[] = [
  { head: 'Rule', width: 'wide', isHead: true, cell: ({ name }) => <span dir="auto">{name}</span> },
  { head: 'Status', cell: ({ status }) => status },
  { head: 'Points before', isNumber: true, cell: ({ before }) => pointsOf(before) },
  { head: 'Points after', isNumber: true, cell: ({ after }) => pointsOf(after) },
];

const memberColumns: Column<Plan['members'][number]>[] = [
  { head: 'Member', width: 'wide', isHead: true, cell: ({ name, login }) => <span dir="auto">{name || login}</span> },
  { head: 'Points before', isNumber: true, cell: ({ before }) => formatNumber(before) },
  { head: 'Points after', isNumber: true, cell: ({ after }) => formatNumber(after) },
  { head: 'Rank', cell: row => `${formatNumber(row.rank_before)} → ${formatNumber(row.rank_after)}` },
];

const moverColumns: Column<Plan['movers']['raised'][number]>[] = [
  {
    head: 'Pull request',
    width: 'wide',
    isHead: true,
    cell: ({ repository, number, title }) => (
      <>
        {repository}#{number} <span dir="auto">{title}</span>
      </>
    ),
  },
  { head: 'Member', cell: ({ member }) => <span dir="auto">{member}</span> },
  { head: 'Score', cell: ({ from, to }) => `${formatNumber(from)} → ${formatNumber(to)} (${formatChange(to - from)})` },
];

const auditColumns: Column<NonNullable<Plan['audit']>['ways'][number]>[] = [
  { head: 'Way', width: 'wide', isHead: true, cell: ({ way }) => way.replaceAll('_', ' ') },
  { head: 'Status', cell: ({ status }) => status },
  { head: 'Gain before', isNumber: true, cell: ({ before }) => formatShare(before.share) },
  { head: 'Gain after', isNumber: true, cell: ({ after }) => formatShare(after.share) },
];
