import type { ComponentChildren, VNode } from 'preact';
import { refresh, type Schemas, useAction, useData } from '../api.ts';
import { AuthorLink, Button, Failure, Loaded, MemberLink, Title, WebLink } from '../elements.tsx';
import { formatChange, formatNumber, formatTime } from '../format.ts';
import { addressOf } from '../route.ts';
import { name, number, Table, text } from '../table.tsx';
import { State } from './pull-requests.tsx';

type Props = { id: string; may: (scope: string) => boolean };

export function PullRequestView({ id, may }: Props) {
  const path = { pullRequest: id };
  const pullRequest = useData('/2026-12/pull-requests/{pullRequest}', { path });
  const explanation = useData('/2026-12/pull-requests/{pullRequest}/explanation', { path });
  const scores = useData('/2026-12/pull-requests/{pullRequest}/scores', { path });
  return (
    <Loaded of={pullRequest} title="Pull request">
      {({ data }) => (
        <>
          <Title>{data.title || 'Without a title'}</Title>
          <p>
            <State state={data.state} /> {data.repository} #{data.number} by <AuthorLink of={data} />, created{' '}
            {formatTime(data.created_at)}. <WebLink address={data.url}>Open on GitHub</WebLink>
          </p>
          <Actions id={id} may={may} />
          <div class="beside">
            <section>
              <h2>
                <span class="score">{formatNumber(data.score)}</span> {data.score === 1 ? 'point' : 'points'}
              </h2>
              <Table
                caption="What counted"
                rows={data.score_breakdown}
                empty="No rule counts yet."
                cells={entry => ({
                  Rule: name(entry.name),
                  Because: text(<code>{entry.expression}</code>),
                  Points: number(formatChange(pointsOf(entry))),
                })}
              />
            </section>
            <Loaded of={explanation}>
              {({ data }) => (
                <Table
                  caption="What would still change it"
                  rows={data.would_change}
                  empty={/open|draft/.test(data.state) ? 'No rule would.' : 'Shown only while it is open.'}
                  cells={({ rule, entry, effect, once }) => ({
                    Rule: name(rule),
                    Once: text(<code>{once.join(' and ')}</code>),
                    Points: text(effect === null ? amountOf(data, rule, entry) : formatChange(effect)),
                  })}
                />
              )}
            </Loaded>
          </div>
          {data.reviews.length > 0 && (
            <Table
              caption="Reviews: what they are worth to reviewers"
              rows={data.reviews}
              cells={({ reviewer, member, breakdown, score }) => ({
                Reviewer: name(<MemberLink id={member} name={reviewer} />),
                'What counted': text(breakdown.map(entry => entry.name).join(', ')),
                Points: number(score),
              })}
            />
          )}
          <Loaded of={explanation} section="How it was calculated">
            {({ data }) => <Explained explanation={data} />}
          </Loaded>
          <Loaded of={scores}>
            {({ data }) => (
              <Table
                caption="How the score changed"
                rows={data}
                empty="No change is known."
                cells={row => ({
                  When: name(formatTime(row.changed_at)),
                  From: number(row.from ?? '–'),
                  To: number(row.to),
                  Why: text(causeOf(row)),
                  'Version of rules': number(row.ruleset_version),
                })}
              />
            )}
          </Loaded>
        </>
      )}
    </Loaded>
  );
}

const question =
  'Delete this pull request? Its score and its history are deleted here, and nothing on GitHub. It comes back once it changes there.';

/** For tokens that may. */
function Actions({ id, may }: Props) {
  const params = { path: { pullRequest: id } };
  const sync = useAction(api => api.PUT('/2026-12/pull-requests/{pullRequest}/sync', { params }), refresh);
  const remove = useAction(
    api => api.DELETE('/2026-12/pull-requests/{pullRequest}', { params }),
    () => location.replace(addressOf('pull-requests')),
  );
  const isRunning = sync.isRunning || remove.isRunning;
  const problem = sync.problem ?? remove.problem;
  const start = (action: typeof sync, other: typeof sync) => {
    // Its problem is over.
    other.stop();
    action.run();
  };
  return (
    <>
      <div class="toolbar" aria-busy={isRunning}>
        {may('sync') && <Button text="Sync" disabled={isRunning} onClick={() => start(sync, remove)} />}
        {may('delete') && (
          <Button text="Delete" disabled={isRunning} onClick={() => confirm(question) && start(remove, sync)} />
        )}
      </div>
      {problem && <Failure problem={problem} />}
    </>
  );
}

const pointsOf = ({ action, effect }: { action: string; effect: number }) => (action === 'ADD' ? effect : -effect);

const causes = { pull_request: 'the pull request changed', ruleset: 'other rules came into force' };
const causeOf = ({ from, cause, changes }: Schemas['ScoreChange']) =>
  (from === null ? 'first seen' : causes[cause]) + (changes > 1 ? `, ${formatNumber(changes)} changes` : '');

type Explanation = Schemas['Explanation'];

/** What an entry gives, if that may change until it counts. */
function amountOf({ rules }: Explanation, rule: string, entry: number) {
  const found = rules.find(({ name }) => name === rule)?.entries[entry - 1];
  return [found?.action === 'ADD' ? 'adds ' : 'subtracts ', <code key="value">{found?.value}</code>];
}

function Explained({ explanation }: { explanation: Explanation }) {
  const { rules, reviews, outdated, ruleset_version, score, score_in_force } = explanation;
  return (
    <>
      <p>
        By version {formatNumber(ruleset_version)} of the <a href={addressOf('rules')}>rules</a>.
      </p>
      {outdated && (
        <p class="notice" role="status">
          The score {formatNumber(score)} has yet to be recalculated: the rules in force give{' '}
          {formatNumber(score_in_force)}.
        </p>
      )}
      {rules.length === 0 && <p>There are no rules.</p>}
      <ul class="tree">
        {rules.map(ruleItem)}
        {reviews.map(({ reviewer, score, rules }, index) =>
          item(index, titled(`Review by ${reviewer ?? 'unknown'}`, formatChange(score)), rules.map(ruleItem)),
        )}
      </ul>
    </>
  );
}

/** A line of a tree. It opens if there are some below it. */
const item = (key: number, line: ComponentChildren, below: ComponentChildren[], isOpen = false) => (
  <li key={key}>
    {below.length === 0 ? (
      line
    ) : (
      <details open={isOpen}>
        <summary>{line}</summary>
        <ul class="tree">{below}</ul>
      </details>
    )}
  </li>
);

const titled = (title: string, text: string) => [<strong key="title">{title}</strong>, ' ', text];

function ruleItem({ name, enabled, problems, entries }: Explanation['rules'][number], key: number) {
  const points = entries.reduce((sum, entry) => sum + pointsOf(entry), 0);
  const below = entries.map(({ reason, condition, amount }, index) =>
    item(index, reason, [condition, amount].filter(part => part !== null).map(partItem), true),
  );
  const why = problems.map((problem, index) => item(index, problem, []));
  const line = titled(name, enabled ? formatChange(points) : 'is disabled');
  return item(key, line, why.length > 0 ? why : below, points !== 0);
}

function partItem({ source, value, infinite, note, chosen, parts }: Schemas['ExplainedPart'], key: number): VNode {
  const text = infinite ? 'infinite' : value === null ? 'absent' : Array.isArray(value) ? value.join(', ') : value;
  const line = (
    <>
      <code>{source}</code> = <strong>{typeof text === 'number' ? formatNumber(text) : `${text}`}</strong>{' '}
      <small>{chosen ? note : 'not chosen'}</small>
    </>
  );
  return item(key, line, parts.map(partItem));
}
