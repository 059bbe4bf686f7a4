import { useRef, useState } from 'preact/hooks';
import { bucketLabel } from '../../src/scoring/plan/distribution.ts';
import { wayDescriptions } from '../../src/scoring/plan/way-descriptions.ts';
import { type Schemas, useAction } from '../api.ts';
import { Button, Failure, MemberLink, PullRequestLink } from '../elements.tsx';
import { formatChange, formatNumber, formatShare } from '../format.ts';
import { number, Table } from '../table.tsx';

type Plan = Schemas['Plan'];

/** @throws Error that says why it is not a rules file, or why the service would not take it */
async function readText(file: File): Promise<string> {
  if (file.size > 2_000_000) throw new Error(`${file.name} is larger than 2 MB. Rules files are smaller.`);
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const decode = async () => decoder.decode(await file.arrayBuffer());
  const text = await decode().catch(() => '\0');
  if (text.includes('\0')) throw new Error(`${file.name} is not a text in UTF-8. Choose a rules file, which is YAML.`);
  if (text.trim() === '') throw new Error(`${file.name} is empty.`);
  if (text.length > 1_000_000) throw new Error(`${file.name} is longer than 1,000,000 characters.`);
  return text;
}

/** Of a component that outlives the view: one follows a link of the result, and comes back. */
export function useTrial() {
  const [file, setFile] = useState('');
  /** The text that was tried last, and what would change by it. */
  const [tried, setTried] = useState<{ text: string; data?: Plan }>();
  return { file, setFile, tried, setTried };
}
export type Trial = ReturnType<typeof useTrial>;

export function TryRulesView({ trial: { file, setFile, tried, setTried } }: { trial: Trial }) {
  const { run, stop, isRunning, problem } = useAction();
  const tryButton = useRef<HTMLButtonElement>(null);
  const chosen = useRef<File>(null);
  const take = async (file: File | undefined) => {
    if (file === undefined) return;
    chosen.current = file;
    stop();
    const read = await readText(file).catch((problem: Error) => problem);
    // Of two files, the first may be read last.
    if (chosen.current !== file) return;
    if (typeof read === 'string') setFile(read);
    else stop(read);
  };
  const params = { query: { audit: true } };
  const headers = { 'content-type': 'application/yaml' };
  const ask = { params, headers, body: file, bodySerializer: (body: string) => body };
  const hasChanged = tried !== undefined && tried.text !== file;
  const plan = isRunning || problem || hasChanged ? undefined : tried?.data;
  const outcome = hasChanged ? 'The text has changed since the last try.' : plan && 'The result is below.';
  return (
    <>
      <p>See what a rules file would change. Nothing is saved.</p>
      <form
        onSubmit={event => {
          event.preventDefault();
          setTried({ text: file });
          void run(
            api => api.POST('/2026-12/rules/plan', ask),
            ({ data }) => setTried({ text: file, data }),
          );
        }}
        onDragOver={event => event.preventDefault()}
        onDrop={event => {
          // A text goes into the field, as in other pages.
          if (event.dataTransfer?.files.length) event.preventDefault();
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
              onClick={({ currentTarget }) => Object.assign(currentTarget, { value: '' })}
              onChange={({ currentTarget: { files } }) => take(files?.[0])}
            />
          </label>
          <Button type="submit" text="Try" ref={tryButton} disabled={isRunning || file.trim() === ''} />
          {isRunning && (
            <Button
              text="Stop"
              onClick={() => {
                stop();
                // This button goes.
                tryButton.current?.focus();
              }}
            />
          )}
          {isRunning && <progress aria-label="Plan under way" />}
          <output>{isRunning ? 'Scoring all pull requests by these rules.' : outcome}</output>
        </div>
        <label>
          Or drop it here, or type:
          <textarea rows={14} spellcheck={false} value={file} onInput={event => setFile(event.currentTarget.value)} />
        </label>
      </form>
      {problem && <Failure problem={problem} />}
      {plan && <PlanResult plan={plan} />}
    </>
  );
}

const labelOf = (bin: Plan['histogram'][number]) => bucketLabel(bin, formatNumber);

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
          labels: histogram.map(labelOf),
          series: [
            { label: 'Before', data: histogram.map(({ before }) => before) },
            { label: 'After', data: histogram.map(({ after }) => after) },
          ],
          vertical: true,
        }}
        empty="There is no pull request yet."
      >
        {bin => ({ Score: labelOf(bin), Before: bin.before, After: bin.after })}
      </Table>
      <RuleTables of={plan} />
      <Table caption="Pull requests that change most" rows={[...movers.raised, ...movers.lowered]}>
        {row => ({
          'Pull request': <PullRequestLink of={row} />,
          Member: row.member,
          Score: `${fromTo(row.from, row.to)} (${formatChange(row.to - row.from)})`,
        })}
      </Table>
      {reviews && <RuleTables title="What would change for reviews" of={reviews} />}
    </>
  );
}

/** What changes for pull requests, or for reviews. */
type Changes = Plan | NonNullable<Plan['reviews']>;
type ComparedWay = NonNullable<Changes['audit']>['ways'][number];

const RuleTables = ({ title, of: { rules, members, audit } }: { title?: string; of: Changes }) => (
  <>
    {title && <h2>{title}</h2>}
    <Table caption="Rules" rows={rules}>
      {({ name, status, before, after }) => ({
        Rule: name,
        Status: status,
        'Points before': before?.points ?? number('–'),
        'Points after': after?.points ?? number('–'),
      })}
    </Table>
    <Table caption="Members" rows={members} empty="Nobody.">
      {member => ({
        Member: <MemberLink id={member.id} name={member.name || member.login} />,
        'Points before': member.before,
        'Points after': member.after,
        Rank: fromTo(member.rank_before, member.rank_after),
      })}
    </Table>
    {audit && (
      <Table caption="How it can be gamed: on which share, and the median gain" rows={audit.ways as ComparedWay[]}>
        {({ way, status, before, after }) => ({
          Way: wayDescriptions[way],
          Status: status,
          'Gains on, before': number(gainOf(before)),
          'Gains on, after': number(gainOf(after)),
        })}
      </Table>
    )}
  </>
);

const gainOf = ({ share, median_gain: gain }: ComparedWay['after']) => `${formatShare(share)} (${formatChange(gain)})`;
const fromTo = (from: number, to: number) => `${formatNumber(from)} → ${formatNumber(to)}`;
