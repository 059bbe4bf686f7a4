import { type Schemas, useData } from '../api.ts';
import { Loaded, Outdated } from '../elements.tsx';
import { presentPeriod } from '../filters.tsx';
import { formatNumber, formatShare, formatTime, verbs } from '../format.ts';
import { number, Table, wide } from '../table.tsx';

export function RulesView() {
  const rules = useData('/2026-12/rules', {});
  const versions = useData('/2026-12/rules/versions', {});
  const standings = useData('/2026-12/standings', { query: { ...presentPeriod(), of: 'repositories', by_rule: true } });
  return (
    <>
      <Loaded of={rules}>
        {({ data, reviews }) => (
          <Loaded of={standings}>{totals => <RuleTable rules={[...data, ...reviews]} totals={totals.data} />}</Loaded>
        )}
      </Loaded>
      <Loaded of={versions}>
        {({ data }) => (
          <Table caption="Versions" rows={data} empty="There is no version yet.">
            {row => ({
              Version: formatNumber(row.version),
              Applied: formatTime(row.applied_at),
              By: row.applied_by,
              Suspended: formatTime(row.suspended_at),
            })}
          </Table>
        )}
      </Loaded>
    </>
  );
}

type Rule = Pick<Schemas['Rule'], 'name' | 'description' | 'is_enabled' | 'logic'> & { created_at?: number };

/** Those first that gave or took most. */
function RuleTable({ rules, totals }: { rules: Rule[]; totals: Schemas['Standings'] }) {
  const given = new Map(totals.rules?.map(rule => [rule.name, rule]));
  const rated = rules.map(rule => ({ ...rule, score: 0, share: 0, ...given.get(rule.name) }));
  return (
    <>
      <Outdated count={totals.outdated} />
      <Table
        caption="Rules, and what they gave and took in the period"
        rows={rated.sort((one, two) => Math.abs(two.score) - Math.abs(one.score))}
        empty="No rules have been applied yet."
      >
        {({ name, description, is_enabled: isEnabled, logic, created_at: created, score, share }) => ({
          Rule: <strong>{name}</strong>,
          'What it does': wide(
            <>
              {created ? description : `For reviews: ${description}`} {!isEnabled && 'Disabled.'}
              <ul>
                {logic.map(({ expression, effect: { action, value } }, index) => (
                  <li key={index}>
                    {verbs[action]} <code>{value}</code> if <code>{expression}</code>
                  </li>
                ))}
              </ul>
            </>,
          ),
          Created: formatTime(created ?? null),
          Points: score,
          Share: number(formatShare(share)),
        })}
      </Table>
    </>
  );
}
