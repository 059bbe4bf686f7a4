import { refresh, type Schemas, useData } from '../api.ts';
import { Button, Loaded, WebLink } from '../elements.tsx';
import { formatNumber, formatTime } from '../format.ts';
import { name, number, short, Table, text } from '../table.tsx';

export function HealthView() {
  const health = useData('/2026-12/health', {});
  return (
    <>
      <p>
        <Button text="Look again" onClick={refresh} />
      </p>
      <Loaded of={health}>
        {({ data }) => (
          <>
            {warningsOf(data).map(warning => (
              <p class="notice bad" key={warning}>
                {warning}
              </p>
            ))}
            <Table
              caption={data.organisation}
              rows={Object.entries({
                'Waiting to be fetched': data.waiting,
                'The first of them has been due for': `${formatNumber(data.overdue_seconds)} s`,
                'Waiting until GitHub shows what it announced': data.behind,
                Failing: data.failing,
                'Parked, of those that fail': data.parked,
                'Scores to recalculate': data.outdated,
                'Last webhook': formatTime(data.last_delivery_at),
                'Last comparison with GitHub': formatTime(data.compared_at),
              })}
              cells={([what, value]) => ({ What: name(what), 'How it is': number(value) })}
            />
            <Table
              caption="Pull requests that fail"
              rows={data.failures}
              cells={({ pull_request: title, url, reason, attempts, due_at: due }) => ({
                'Pull request': name(<WebLink address={url ?? ''}>{title ?? url ?? 'unknown'}</WebLink>),
                Why: text(reason),
                Tries: number(attempts),
                Next: short(due === null ? 'parked' : formatTime(due)),
              })}
            />
          </>
        )}
      </Loaded>
    </>
  );
}

const warningsOf = (health: Schemas['Health']) =>
  [
    health.rules_suspended_by !== null && `The rules in force are suspended: ${health.rules_suspended_by}.`,
    !health.webhooks_enabled && 'Webhooks are turned off: changes are seen at the next comparison only.',
    health.comparison_failure !== null && `The last comparison with GitHub failed: ${health.comparison_failure}`,
  ].filter(warning => warning !== false);
