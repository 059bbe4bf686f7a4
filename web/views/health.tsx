import { refresh, useData } from '../api.ts';
import { Button, Loaded, WebLink } from '../elements.tsx';
import { formatNumber, formatTime } from '../format.ts';
import { number, Table, wide } from '../table.tsx';

export const HealthView = () => (
  <Loaded of={useData('/2026-12/health', {})}>
    {({ data }) => (
      <>
        <p>
          <Button text="Look again" onClick={refresh} />
        </p>
        {data.rules_suspended_by !== null && warning(`The rules in force are suspended: ${data.rules_suspended_by}.`)}
        {data.webhooks_enabled || warning('Webhooks are turned off: changes are seen at the next comparison only.')}
        {data.comparison_failure !== null && warning(`The last comparison failed: ${data.comparison_failure}`)}
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
        >
          {([what, value]) => ({ What: what, 'How it is': number(value) })}
        </Table>
        <Table caption="Pull requests that fail" rows={data.failures}>
          {({ pull_request: title, url, reason, attempts, due_at: due }) => ({
            'Pull request': <WebLink address={url ?? ''}>{title ?? url ?? 'unknown'}</WebLink>,
            Why: wide(reason),
            Tries: attempts,
            Next: due === null ? 'parked' : formatTime(due),
          })}
        </Table>
      </>
    )}
  </Loaded>
);

const warning = (text: string) => <p class="notice bad">{text}</p>;
