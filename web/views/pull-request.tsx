import { useRef } from 'preact/hooks';
import { type Api, Failure, Loaded, type Schemas, useAction, useData, useSession } from '../api.tsx';
import { formatChange, formatNumber, formatTime } from '../format.ts';
import { addressOf, type Route } from '../route.ts';
import { Table } from '../table.tsx';
import { GitHubLink, State } from './pull-requests.tsx';

type Explanation = Schemas['Explanation'];
type Part = Schemas['ExplainedPart'];

export function PullRequestView({ route: { id = '' } }: { route: Route }) {
  const path = { params: { path: { pullRequest: id } } };
  const pullRequest = useData(`pull request ${id}`, (api, signal) =>
    api.GET('/2026-12/pull-requests/{pullRequest}', { ...path, signal }),
  );
  const explanation = useData(`explanation ${id}`, (api, signal) =>
    api.GET('/2026-12/pull-requests/{pullRequest}/explanation', { ...path, signal }),
  );
  const scores = useData(`scores ${id}`, (api, signal) =>
    api.GET('/2026-12/pull-requests/{pullRequest}/scores', { ...path, signal }),
  );
  const reload = () => {
    for (const { reload } of [pullRequest, explanation, scores]) reload();
  };
  return (
    <Loaded of={pullRequest} title="Pull request">
      {({ data }) => (
        <>
          <h1 dir="auto">{data.title || 'Without a title'}</h1>
          <p>
            <State state={data.state} /> {data.repository} #{data.number} by{' '}
            <a href={addressOf('members', data.links.member.split('/').pop())}>{data.author || 'unknown'}</a>, created{' '}
            {formatTime(data.created_at)}. <GitHubLink address={data.url} />
          </p>
          <Actions id={id} changed={reload} />
          <div class="beside">
            <section aria-labelledby="counted">
              <h2 id="counted">
                <span class="score">{formatNumber(data.score)}</span> points
              </h2>
              <Table
                caption="What counted"
                rows={data.score_breakdown.map((entry, index) => ({ ...entry, index }))}
                keyOf={({ index, effect }) => `${index} ${effect}`}
                empty="No rule counts yet."
                columns={[
                  { head: 'Rule', width: 'wide', isHead: true, cell: ({ name }) => <span dir="auto">{name}</span> },
                  { head: 'Because', width: 'wide', cell: ({ expression }) => <code>{expression}</code> },
                  {
                    head: 'Points',
                    width: 'narrow',
                    isNumber: true,
                    cell: ({ action, effect }) => formatChange(action === 'ADD' ? effect : -effect),
                  },
                ]}
              />
            </section>
            <section aria-labelledby="change">
              <h2 id="change">What would still change it</h2>
              <Loaded of={explanation}>{({ data }) => <WouldChange explanation={data} />}</Loaded>
            </section>
          </div>
          <section aria-labelledby="explanation">
            <h2 id="explanation">How it was calculated</h2>
            <Loaded of={explanation}>{({ data }) => <Explained explanation={data} />}</Loaded>
          </section>
          <section aria-labelledby="history">
            <h2 id="history">How the score changed</h2>
            <Loaded of={scores}>{({ data }) => <History changes={data} />}</Loaded>
          </section>
        </>
      )}
    </Loaded>
  );
}

/** For tokens that may. */
function Actions({ id, changed }: { id: string; changed: () => void }) {
  const { may } = useSession();
  const dialog = useRef<HTMLDialogElement>(null);
  const path = { params: { path: { pullRequest: id } } };
  const sync = useAction((api: Api) => api.PUT('/2026-12/pull-requests/{pullRequest}/sync', path), changed);
  const remove = useAction(
    (api: Api) => api.DELETE('/2026-12/pull-requests/{pullRequest}', path),
    () => location.replace(addressOf('pull-requests')),
  );
  const failure = sync.failure ?? remove.failure;
  return (
    <>
      <div class="toolbar">
        {may('sync') && (
          <button type="button" disabled={sync.isRunning} onClick={sync.run}>
            {sync.isRunning ? 'Syncing…' : 'Sync'}
          </button>
        )}
        {may('delete') && (
          <button type="button" disabled={remove.isRunning} onClick={() => dialog.current?.showModal()}>
            Delete
          </button>
        )}
      </div>
      {failure && <Failure error={failure} />}
      <dialog ref={dialog} aria-labelledby="delete">
        <h2 id="delete">Delete this pull request?</h2>
        <p>Its score and its history are deleted here, and nothing on GitHub. It comes back once it changes there.</p>
        <div class="toolbar">
          <button type="button" onClick={() => dialog.current?.close()}>
            Keep it
          </button>
          <button
            type="button"
            class="primary"
            onClick={() => {
              dialog.current?.close();
              remove.run();
            }}
          >
            Delete it
          </button>
        </div>
      </dialog>
    </>
  );
}

function WouldChange({ explanation: { would_change: entries } }: { explanation: Explanation }) {
  if (entries.length === 0) return <p>No rule would still change it.</p>;
  return (
    <ul>
      {entries.map(({ rule, entry, effect, once }) => (
        <li key={`${rule} ${entry}`}>
          <span dir="auto">{rule}</span>:{' '}
          {effect === null ? 'an amount that depends' : <strong>{formatChange(effect)}</strong>}, once{' '}
          {once.map((condition, index) => (
            <>
              {index > 0 && ' and '}
              <code>{condition}</code>
            </>
          ))}
        </li>
      ))}
    </ul>
  );
}

function Explained({ explanation }: { explanation: Explanation }) {
  const { rules, outdated, ruleset_version, score, score_in_force } = explanation;
  return (
    <>
      <p>By version {formatNumber(ruleset_version)} of the rules.</p>
      {outdated && (
        <p class="notice" role="status">
          The score {formatNumber(score)} has yet to be recalculated: the rules in force give{' '}
          {formatNumber(score_in_force)}.
        </p>
      )}
      {rules.length === 0 && <p>There are no rules.</p>}
      {rules.map(({ name, enabled, problems, entries }) => {
        const points = entries.reduce((sum, { effect, action }) => sum + (action === 'ADD' ? effect : -effect), 0);
        return (
          <details key={name} open={points !== 0}>
            <summary>
              <strong dir="auto">{name}</strong> {enabled ? formatChange(points) : 'is disabled'}
            </summary>
            {problems.map(problem => (
              <p key={problem}>{problem}</p>
            ))}
            {entries.map(({ entry, reason, condition, amount }) => (
              <div key={entry} class="entry">
                <p dir="auto">{reason}</p>
                <ul class="tree">
                  {condition && <Tree part={condition} />}
                  {amount && <Tree part={amount} />}
                </ul>
              </div>
            ))}
          </details>
        );
      })}
    </>
  );
}

function Tree({ part }: { part: Part }) {
  const { source, value, infinite, note, chosen, parts } = part;
  const text = infinite ? 'infinite' : value === null ? 'absent' : Array.isArray(value) ? value.join(', ') : value;
  const line = (
    <>
      <code dir="auto">{source}</code> ={' '}
      <strong dir="auto">{typeof text === 'number' ? formatNumber(text) : `${text}`}</strong>{' '}
      <small dir="auto">{chosen ? note : 'not chosen'}</small>
    </>
  );
  if (parts.length === 0) return <li>{line}</li>;
  return (
    <li>
      <details>
        <summary>{line}</summary>
        <ul class="tree">
          {parts.map((inner, index) => (
            <Tree key={index} part={inner} />
          ))}
        </ul>
      </details>
    </li>
  );
}

const causes = { pull_request: 'the pull request changed', ruleset: 'other rules came into force' };

function History({ changes }: { changes: Schemas['ScoreChange'][] }) {
  return (
    <Table
      caption="Latest first, times in UTC"
      rows={changes.map((change, index) => ({ ...change, index }))}
      keyOf={({ index, changed_at }) => `${index} ${changed_at}`}
      empty="No change is known."
      columns={[
        { head: 'When', isHead: true, cell: ({ changed_at }) => formatTime(changed_at) },
        {
          head: 'Score',
          isNumber: true,
          cell: ({ from, to }) => (from === null ? formatNumber(to) : `${formatNumber(from)} → ${formatNumber(to)}`),
        },
        {
          head: 'Why',
          width: 'wide',
          cell: ({ from, cause, changes }) =>
            `${from === null ? 'first seen' : causes[cause]}${changes > 1 ? `, ${formatNumber(changes)} changes` : ''}`,
        },
        { head: 'Rules', width: 'narrow', isNumber: true, cell: change => formatNumber(change.ruleset_version) },
      ]}
    />
  );
}
