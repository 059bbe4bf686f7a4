import type { ComponentChildren } from 'preact';
import { asInRules } from '../../src/text/number-formats.ts';
import { refresh, type Schemas, useAction, useData } from '../api.ts';
import { AuthorLink, Button, Failure, Loaded, MemberLink, Title, WebLink } from '../elements.tsx';
import { formatChange, formatNumber, formatTime, verbs } from '../format.ts';
import { addressOf } from '../route.ts';
import { number, Table, wide } from '../table.tsx';

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
            <span class={data.state}>{data.state}</span> {data.repository} #{data.number} by <AuthorLink of={data} />,
            created {formatTime(data.created_at)}. <WebLink address={data.url}>Open on GitHub</WebLink>
          </p>
          <Actions id={id} may={may} />
          <div class="beside">
            <section>
              <h2>
                <span class="score">{formatNumber(data.score)}</span> {data.score === 1 ? 'point' : 'points'}
              </h2>
              <Table caption="What counted" rows={data.score_breakdown} empty="No rule counts yet.">
                {entry => ({
                  Rule: entry.name,
                  Because: wide(<code>{entry.expression}</code>),
                  Points: number(formatChange(pointsOf(entry))),
                })}
              </Table>
            </section>
            {/* If there is none, the next part says why. */}
            {explanation.problem === undefined && (
              <Loaded of={explanation}>
                {({ data }) => (
                  <Table
                    caption="What would still change it"
                    rows={data.would_change}
                    empty={/open|draft/.test(data.state) ? 'No rule would.' : 'Shown only while it is open.'}
                  >
                    {({ rule, entry, effect, once }) => ({
                      Rule: rule,
                      Once: wide(<code>{once.join(' and ')}</code>),
                      Points: wide(effect === null ? amountOf(data, rule, entry) : formatChange(effect)),
                    })}
                  </Table>
                )}
              </Loaded>
            )}
          </div>
          {data.reviews.length > 0 && (
            <Table caption="Reviews: what they are worth to reviewers" rows={data.reviews}>
              {({ reviewer, member, breakdown, score }) => ({
                Reviewer: <MemberLink id={member} name={reviewer} />,
                'What counted': wide(breakdown.map(({ name }) => name).join(', ')),
                Points: score,
              })}
            </Table>
          )}
          <Loaded of={explanation} section="How it was calculated">
            {({ data }) => <Explained of={data} />}
          </Loaded>
          <Loaded of={scores}>
            {({ data }) => (
              <Table caption="How the score changed" rows={data} empty="No change is known.">
                {row => ({
                  When: formatTime(row.changed_at),
                  From: row.from ?? number('–'),
                  To: row.to,
                  Why: wide(causeOf(row)),
                  'Version of rules': row.ruleset_version,
                })}
              </Table>
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
  const { run, isRunning, problem } = useAction();
  const params = { path: { pullRequest: id } };
  const sync = () => run(api => api.PUT('/2026-12/pull-requests/{pullRequest}/sync', { params }), refresh);
  const leave = () => location.replace(addressOf('pull-requests'));
  const remove = () => run(api => api.DELETE('/2026-12/pull-requests/{pullRequest}', { params }), leave);
  return (
    <>
      <div class="toolbar" aria-busy={isRunning}>
        {may('sync') && <Button text="Sync" disabled={isRunning} onClick={sync} />}
        {may('delete') && <Button text="Delete" disabled={isRunning} onClick={() => confirm(question) && remove()} />}
        <output>{isRunning && 'Under way…'}</output>
      </div>
      {problem && <Failure problem={problem} />}
    </>
  );
}

const pointsOf = ({ action, effect }: { action: string; effect: number }) => (action === 'ADD' ? effect : -effect);

const causes = { pull_request: 'the pull request changed', ruleset: 'scored again' };
const causeOf = ({ from, cause, changes }: Schemas['ScoreChange']) =>
  (from === null ? 'first seen' : causes[cause]) + (changes > 1 ? `, ${formatNumber(changes)} changes` : '');

type Explanation = Schemas['Explanation'];

/** What an entry gives, if that may change until it counts. */
function amountOf({ rules }: Explanation, rule: string, entry: number) {
  const { action, value } = rules.find(({ name }) => name === rule)?.entries[entry - 1] ?? {};
  return action ? `${verbs[action]} ${value}` : '';
}

function Explained({ of: { rules, reviews, outdated, ruleset_version, score_in_force } }: { of: Explanation }) {
  const ofReviews = reviews.map(({ reviewer, score, rules }) => ({
    line: titled(`Review by ${reviewer ?? 'unknown'}`, formatChange(score)),
    below: rules.map(ofRule),
  }));
  return (
    <>
      <p>By version {formatNumber(ruleset_version)} of the rules.</p>
      {outdated && (
        <p class="notice" role="status">
          The rules in force give {formatNumber(score_in_force)}: the score has yet to be recalculated.
        </p>
      )}
      <Tree lines={[...rules.map(ofRule), ...ofReviews]} />
    </>
  );
}

/** A line of a tree. It opens if there are some below it. */
type Line = { line: ComponentChildren; below: Line[]; isOpen?: boolean };

const Tree = ({ lines }: { lines: Line[] }) => (
  <ul class="tree">
    {lines.map(({ line, below, isOpen = false }, index) => (
      <li key={index}>
        {below.length === 0 ? (
          line
        ) : (
          <details open={isOpen}>
            <summary>{line}</summary>
            <Tree lines={below} />
          </details>
        )}
      </li>
    ))}
  </ul>
);

const titled = (title: string, text: string) => [<strong key="title">{title}</strong>, ' ', text];

function ofRule({ name, enabled, problems, entries }: Explanation['rules'][number]): Line {
  const points = entries.reduce((sum, entry) => sum + pointsOf(entry), 0);
  const why = problems.map(line => ({ line, below: [] }));
  const line = titled(name, enabled ? formatChange(points) : 'is disabled');
  return { line, below: why.length > 0 ? why : entries.map(ofEntry), isOpen: points !== 0 };
}

const ofEntry = ({ reason, condition, amount }: Explanation['rules'][number]['entries'][number]): Line => ({
  line: reason,
  below: [condition, amount].filter(part => part !== null).map(ofPart),
  isOpen: true,
});

function ofPart({ source, value, infinite, note, chosen, parts }: Schemas['ExplainedPart']): Line {
  const text = infinite ? 'infinite' : value === null ? 'absent' : Array.isArray(value) ? value.join(', ') : value;
  const line = (
    <>
      <code>{source}</code> = <strong>{typeof text === 'number' ? asInRules(text) : `${text}`}</strong>{' '}
      <small>{chosen ? note : 'not chosen'}</small>
    </>
  );
  return { line, below: parts.map(ofPart) };
}
