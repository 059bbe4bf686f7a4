import { useEffect, useState } from 'preact/hooks';
import { wayDescriptions } from '../../src/scoring/plan/way-descriptions.ts';
import { type Problem, type Schemas, useAction } from '../api.ts';
import { Button, Failure, MemberLink, PullRequestLink } from '../elements.tsx';
import { formatChange, formatNumber, formatShare } from '../format.ts';
import { name, number, short, Table } from '../table.tsx';

type Plan = Schemas['Plan'];

/** What the service takes. */
const maxFileBytes = 2_000_000;

/** @throws Error that says why it is not a rules file */
async function readText(file: File): Promise<string> {
  if (file.size > maxFileBytes) throw new Error(`${file.name} is larger than 2 MB. Rules files are smaller.`);
  const bytes = await file.arrayBuffer();
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    if (!text.includes('\0')) return text;
  } catch {
    // Said below.
  }
  throw new Error(`${file.name} is not a text in UTF-8. Choose a rules file, which is YAML.`);
}

export function TryRulesView() {
  const [file, setFile] = useState('');
  const [unreadable, setUnreadable] = useState<Problem>();
  const [plan, setPlan] = useState<Plan>();
  const attempt = useAction(
    api =>
      api.POST('/2026-12/rules/plan', {
        params: { query: { audit: true } },
        headers: { 'content-type': 'application/yaml' },
        body: file,
        bodySerializer: body => body,
      }),
    ({ data }) => setPlan(data),
  );
  const take = (file: File | undefined) => {
    setUnreadable(undefined);
    if (file !== undefined) readText(file).then(setFile, setUnreadable);
  };
  const problem = unreadable ?? attempt.problem;
  const shown = attempt.isRunning || problem ? undefined : plan;
  return (
    <>
      <p>See what a rules file would change. Nothing is saved.</p>
      <form
        onSubmit={event => {
          event.preventDefault();
          take(undefined);
          attempt.run();
        }}
        onDragOver={event => event.preventDefault()}
        onDrop={event => {
          event.preventDefault();
          take(event.dataTransfer?.files[0]);
        }}
      >
        <div class="toolbar">
          <label>
            Rules file
            <input
              type="file"
              accept=".yaml,.yml"
              // Otherwise nothing happens if one chooses the same file again, after a change.
              onClick={({ currentTarget }) => {
                currentTarget.value = '';
              }}
              onChange={({ currentTarget: { files } }) => take(files?.[0])}
            />
          </label>
          <Button type="submit" text="Try" disabled={attempt.isRunning || file.trim() === ''} />
          {attempt.isRunning && <Progress stop={attempt.stop} />}
          <output>
            {attempt.isRunning ? 'Scoring all pull requests by these rules.' : shown && 'The result is below.'}
          </output>
        </div>
        <label>
          Or drop it here, or type:
          <textarea rows={14} spellcheck={false} value={file} onInput={event => setFile(event.currentTarget.value)} />
        </label>
      </form>
      {problem && <Failure problem={problem} />}
      {shown && <PlanResult plan={shown} />}
    </>
  );
}

/** The service does not say how far it is. */
function Progress({ stop }: { stop: () => void }) {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds(seconds => seconds + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return (
    <>
      <Button text="Stop" onClick={stop} />
      <progress aria-label="Plan under way" />
      <span>{formatNumber(seconds)} s</span>
    </>
  );
}

function labelOf({ from, to }: Plan['histogram'][number]): string {
  if (from === null) return `< ${formatNumber(to ?? 0)}`;
  if (to === null) return `≥ ${formatNumber(from)}`;
  return to - from === 1 ? formatNumber(from) : `${formatNumber(from)} to ${formatNumber(to - 1)}`;
}

function PlanResult({ plan }: { plan: Plan }) {
  const { pull_requests: count, scores, histogram, movers, reviews } = plan;
  return (
    <>
      <h2>What would change</h2>
      <p>
        <strong>{formatNumber(count.changed)}</strong> of {formatNumber(count.total)} scores:{' '}
        {formatNumber(count.raised)} rise, {formatNumber(count.lowered)} fall. The sum goes from{' '}
        {formatNumber(scores.before.sum)} to {formatNumber(scores.after.sum)}.
      </p>
      <Table
        caption="Pull requests by score"
        rows={histogram}
        chart={{
          label: 'Pull requests by score, before and after',
          labels: histogram.map(labelOf),
          series: [
            { label: 'Before', data: histogram.map(({ before }) => before) },
            { label: 'After', data: histogram.map(({ after }) => after) },
          ],
          vertical: true,
        }}
        empty="There is no pull request yet."
        cells={bin => ({ Score: name(labelOf(bin)), Before: number(bin.before), After: number(bin.after) })}
      />
      <RuleTables of={plan} />
      <Table
        caption="Pull requests that change most"
        rows={[...movers.raised, ...movers.lowered]}
        cells={row => ({
          'Pull request': name(<PullRequestLink of={row} />),
          Member: short(row.member),
          Score: short(`${fromTo(row.from, row.to)} (${formatChange(row.to - row.from)})`),
        })}
      />
      {reviews && (
        <>
          <h2>What would change for reviews</h2>
          <RuleTables of={reviews} />
        </>
      )}
    </>
  );
}

/** What changes for pull requests, or for reviews. */
type Changes = Plan | NonNullable<Plan['reviews']>;
type ComparedWay = NonNullable<Changes['audit']>['ways'][number];

const RuleTables = ({ of: { rules, members, audit } }: { of: Changes }) => (
  <>
    <Table
      caption="Rules"
      rows={rules}
      cells={({ name: rule, status, before, after }) => ({
        Rule: name(rule),
        Status: short(status),
        'Points before': number(before?.points ?? '–'),
        'Points after': number(after?.points ?? '–'),
      })}
    />
    <Table
      caption="Members"
      rows={members}
      empty="Nobody."
      cells={member => ({
        Member: name(<MemberLink id={member.id} name={member.name || member.login} />),
        'Points before': number(member.before),
        'Points after': number(member.after),
        Rank: short(fromTo(member.rank_before, member.rank_after)),
      })}
    />
    {audit && (
      <Table
        caption="How it can be gamed: on which share, and the median gain"
        rows={audit.ways as ComparedWay[]}
        cells={({ way, status, before, after }) => ({
          Way: name(wayDescriptions[way]),
          Status: short(status),
          'Gains on, before': number(gainOf(before)),
          'Gains on, after': number(gainOf(after)),
        })}
      />
    )}
  </>
);

const gainOf = ({ share, median_gain: gain }: ComparedWay['after']) => `${formatShare(share)} (${formatChange(gain)})`;
const fromTo = (from: number, to: number) => `${formatNumber(from)} → ${formatNumber(to)}`;
