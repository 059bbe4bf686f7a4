import type { ComponentChildren } from 'preact';
import { type Schemas, useAction, useData } from '../api.ts';
import { AuthorLink, Button, Failure, Loaded, MemberLink, Title, WebLink } from '../elements.tsx';
import { formatChange, formatNumber, formatTime } from '../format.ts';
import { addressOf } from '../route.ts';
import { refresh } from '../session.ts';
import { name, number, Table, text } from '../table.tsx';
import { State } from './pull-requests.tsx';

type Explanation = Schemas['Explanation'];
type Breakdown = Schemas['PullRequest']['score_breakdown'];
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
                <span class="score">{formatNumber(data.score)}</span> points
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
            <Loaded of={explanation} section="What would still change it">
              {({ data }) => <WouldChange explanation={data} />}
            </Loaded>
          </div>
          {data.reviews.length > 0 && (
            <Table
              caption="Reviews: what they are worth to reviewers"
              rows={data.reviews}
              cells={({ reviewer, member, breakdown, score }) => ({
                Reviewer: name(<MemberLink id={member} name={reviewer} />),
                'What counted': text(<ReviewBreakdown entries={breakdown} />),
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
  const problem = sync.problem ?? remove.problem;
  return (
    <>
      <div class="toolbar">
        {may('sync') && (
          <Button text={sync.isRunning ? 'Syncing…' : 'Sync'} disabled={sync.isRunning} onClick={sync.run} />
        )}
        {may('delete') && (
          <Button text="Delete" disabled={remove.isRunning} onClick={() => confirm(question) && remove.run()} />
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

const ReviewBreakdown = ({ entries }: { entries: Breakdown }) => (
  <ul>
    {entries.length === 0 && <li>nothing yet</li>}
    {entries.map((entry, index) => (
      <li key={index}>
        <span>{entry.name}</span> {formatChange(pointsOf(entry))}, because <code>{entry.expression}</code>
      </li>
    ))}
  </ul>
);

function WouldChange({ explanation: { would_change: changes, rules } }: { explanation: Explanation }) {
  const adds = (rule: string, entry: number) =>
    rules.some(({ name, entries }) => name === rule && entries[entry - 1]?.action === 'ADD');
  if (changes.length === 0) return <p>No rule would still change it.</p>;
  return (
    <ul>
      {changes.map(({ rule, entry, effect, once }) => (
        <li key={`${rule} ${entry}`}>
          <span>{rule}</span>:{' '}
          {effect === null
            ? `${adds(rule, entry) ? 'adds' : 'takes away'} an amount that depends`
            : formatChange(effect)}
          , once <code>{once.join(' and ')}</code>
        </li>
      ))}
    </ul>
  );
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
      <Tree nodes={[...rules.map(nodeOfRule), ...reviews.map(nodeOfReview)]} />
    </>
  );
}

type Node = { line: ComponentChildren; parts?: Node[]; isOpen?: boolean };

const Tree = ({ nodes }: { nodes: Node[] }) => (
  <ul class="tree">
    {nodes.map(({ line, parts = [], isOpen = false }, index) => (
      <li key={index}>
        {parts.length === 0 ? (
          line
        ) : (
          <details open={isOpen}>
            <summary>{line}</summary>
            <Tree nodes={parts} />
          </details>
        )}
      </li>
    ))}
  </ul>
);

function nodeOfRule({ name, enabled, problems, entries }: Explanation['rules'][number]): Node {
  const points = entries.reduce((sum, entry) => sum + pointsOf(entry), 0);
  return {
    line: titled(name, enabled ? formatChange(points) : 'is disabled'),
    parts: [
      ...problems.map(line => ({ line })),
      ...entries.map(({ reason, condition, amount }) => ({
        line: reason,
        parts: [condition, amount].flatMap(part => (part === null ? [] : nodeOfPart(part))),
        isOpen: true,
      })),
    ],
    isOpen: points !== 0,
  };
}

const nodeOfReview = ({ reviewer, score, rules }: Explanation['reviews'][number]): Node => ({
  line: titled(`Review by ${reviewer ?? 'unknown'}`, formatChange(score)),
  parts: rules.map(nodeOfRule),
});

const titled = (title: string, text: string) => (
  <>
    <strong>{title}</strong> {text}
  </>
);

function nodeOfPart({ source, value, infinite, note, chosen, parts }: Schemas['ExplainedPart']): Node {
  const text = infinite ? 'infinite' : value === null ? 'absent' : Array.isArray(value) ? value.join(', ') : value;
  const line = (
    <>
      <code>{source}</code> = <strong>{typeof text === 'number' ? formatNumber(text) : `${text}`}</strong>{' '}
      <small>{chosen ? note : 'not chosen'}</small>
    </>
  );
  return { line, parts: parts.map(nodeOfPart) };
}
