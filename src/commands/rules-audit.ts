import type { Executor } from '../database/client.ts';
import { createFactsReader } from '../database/facts.ts';
import type { Organisation } from '../database/organisations.ts';
import { countPullRequests, describePullRequests } from '../database/pull-requests.ts';
import { isSampled, readFacts, readSnapshot } from '../database/snapshot.ts';
import type { Deps } from '../deps.ts';
import { formatId } from '../ids.ts';
import { type Audit, type AuditedWay, createAudit } from '../scoring/plan/audit.ts';
import type { Way } from '../scoring/plan/audit-ways.ts';
import type { Ruleset } from '../scoring/ruleset.ts';
import { decimal, formatInteger, percent, signed } from '../text/numbers.ts';
import { grid, labelled, plain, right } from '../text/terminal.ts';
import type { PullscoreCommand } from './command.ts';
import { type Context, UsageError } from './context.ts';
import { addAll } from './progress.ts';
import { loadRules } from './rules-file.ts';

/** More are sampled: the shares are then off by about one percentage point at most. */
const maxAudited = 10_000;

export const descriptions: Record<Way, string> = {
  split: 'split into two of half the size',
  pad: 'padded with lock, generated or docs files',
  commits: 'ten more commits',
  body: 'a longer description, with a linked issue',
  title: 'another prefix of the title',
  label: 'a label that the rules look for',
  reopen: 'closed and opened again',
  self_merge: 'merged by its author',
  bot_approval: 'approved by a bot',
  files: 'one file split into ten',
};

/** How many of the rules that pay for a way are named. */
const maxPaying = 3;

/** A share equal to the limit may exceed it by this much. */
const rounding = 1e-9;

type AuditDocument = Awaited<ReturnType<typeof auditRules>>;

async function auditRules(
  context: Context,
  { database }: Deps,
  { id: organisationId, login: organisation }: Organisation,
  ruleset: Ruleset,
) {
  return readSnapshot(database, async executor => {
    const audit = createAudit(ruleset);
    const stored = await runAudits(context, executor, organisationId, audit);
    const { pullRequests, ways } = audit.result();
    const details = await describePullRequests(
      executor,
      organisationId,
      ways.flatMap(({ example }) => example?.id ?? []),
    );
    return {
      organisation,
      // Those that were audited.
      pull_requests: pullRequests,
      stored_pull_requests: stored,
      ways: ways.map(({ example, ...way }) => ({
        ...way,
        example:
          example === undefined
            ? null
            : { ...example, id: formatId('pr', example.id), url: details.get(example.id)?.url ?? '' },
      })),
    };
  });
}

/** Gives audits the same pull requests. @returns how many are stored */
async function runAudits(
  context: Context,
  executor: Executor,
  organisationId: string,
  ...audits: readonly Audit[]
): Promise<number> {
  const stored = await countPullRequests(executor, organisationId);
  const share = Math.min(1, maxAudited / Math.max(1, stored));
  const facts = new Set(audits.flatMap(audit => [...audit.facts]));
  const batches = readFacts(executor, organisationId, createFactsReader(facts), isSampled(share));
  await addAll(context, batches, Math.min(stored, maxAudited), pullRequest => {
    for (const audit of audits) audit.add(pullRequest.id, pullRequest.facts);
  });
  return stored;
}

export type AuditComparison = Awaited<ReturnType<typeof compareAudits>>;
export type ComparedWay = AuditComparison['ways'][number];

/** How rules can be gamed, those in force against others. The ways that gain most by the others come first. */
export async function compareAudits(
  context: Context,
  executor: Executor,
  organisationId: string,
  inForce: Ruleset,
  ruleset: Ruleset,
) {
  const audits = { before: createAudit(inForce), after: createAudit(ruleset) };
  const stored = await runAudits(context, executor, organisationId, audits.before, audits.after);
  const [before, after] = [audits.before.result(), audits.after.result()];
  return {
    pull_requests: after.pullRequests,
    stored_pull_requests: stored,
    ways: after.ways.map(latter => {
      const former = before.ways.find(({ way }) => way === latter.way) ?? latter;
      return { way: latter.way, status: statusOf(former, latter), before: figuresOf(former), after: figuresOf(latter) };
    }),
  };
}

const figuresOf = ({ way: _, example: __, ...figures }: AuditedWay) => figures;

/** By the share of the pull requests that gain; if that is the same, by the median gain. */
function statusOf(before: AuditedWay, after: AuditedWay): 'none' | 'new' | 'gone' | 'worse' | 'better' | 'same' {
  if (after.share === 0) return before.share === 0 ? 'none' : 'gone';
  if (before.share === 0) return 'new';
  const change = after.share - before.share || after.median_gain - before.median_gain;
  if (Math.abs(change) < rounding) return 'same';
  return change > 0 ? 'worse' : 'better';
}

function auditText(
  { organisation, pull_requests: audited, stored_pull_requests: stored, ways }: AuditDocument,
  width: number,
): string {
  const scope =
    audited < stored
      ? `a sample of ${formatInteger(audited)} of ${formatInteger(stored)}`
      : `all ${formatInteger(stored)}`;
  const gaining = ways.filter(({ share }) => share > 0);
  const others = ways.filter(({ share }) => share === 0);
  const lines = [
    `How these rules can be gamed: ${scope} pull requests of ${organisation}, changed and scored again`,
    '',
  ];
  if (gaining.length > 0) {
    const rows = gaining.map(({ way, share, median_gain: median, largest_gain: largest }) => [
      descriptions[way],
      percent(share * audited, audited),
      signed(median, decimal),
      signed(largest),
    ]);
    const paidBy = ({ rules }: (typeof ways)[number]) =>
      rules
        .slice(0, maxPaying)
        .map(rule => `${plain(rule.name)} ${percent(rule.share, 1)}`)
        .join(', ');
    const examples = gaining.flatMap(({ way, example }) =>
      example === null
        ? []
        : [[descriptions[way], `${formatInteger(example.before)} → ${formatInteger(example.after)}`, example.url]],
    );
    const [heading = '', ...found] = grid(['WAY', right('GAINS ON'), right('MEDIAN'), right('LARGEST')], rows);
    const payers = gaining.map(way => labelled('  paid by ', paidBy(way), width));
    lines.push(heading, ...found.flatMap((line, index) => [line, ...(payers[index] ?? [])]), '');
    lines.push(...grid(['EXAMPLE', right('SCORE'), 'ADDRESS'], examples), '');
  }
  if (others.length > 0) {
    lines.push(...labelled('No gain from: ', `${others.map(({ way }) => descriptions[way]).join('; ')}.`, width));
  }
  return lines.join('\n').trimEnd();
}

/** @returns percent */
function parsePercentage(text: string): number {
  const [, digits] = /^(\d{1,3}(?:\.\d+)?)%$/.exec(text) ?? [];
  if (digits === undefined || Number(digits) > 100) {
    throw new UsageError(`"${text}" is not a valid share.`, 'Give a percentage such as 5%.');
  }
  return Number(digits);
}

export function auditCommand(group: PullscoreCommand, context: Context): void {
  group
    .command('audit')
    .description('search a rules file for ways to game it; saves nothing')
    .argument('<file>', 'a rules file; - for standard input')
    .option('--max-share <percentage>', 'fail if any way gains on a larger share of the pull requests, such as 5%')
    .addHelpText(
      'after',
      `
Changes stored pull requests in small, cheap ways, scores them again, and shows which ways gain points: how often, how
much, and which rule pays. More than ${formatInteger(maxAudited)} pull requests are sampled. Makes no requests to GitHub.`,
    )
    .examples('rules audit rules.example.yaml --organisation acme --max-share 5%')
    .answerFrom<{ maxShare?: string }, AuditDocument>(async ({ maxShare }, file) => {
      const limit = maxShare === undefined ? 100 : parsePercentage(maxShare);
      const { ruleset } = await loadRules(context, file);
      return {
        read: (deps, organisation) => auditRules(context, deps, organisation, ruleset),
        request: { method: 'POST', path: 'rules/audit', rules: ruleset.source },
        show(document) {
          const over = document.ways.filter(({ share }) => share * 100 > limit + rounding);
          const names = over.map(({ way, share }) => `${descriptions[way]} (${percent(share, 1)})`);
          return {
            text: auditText(document, context.columns),
            failure:
              over.length === 0
                ? undefined
                : `These gain on more than ${maxShare} of the pull requests: ${names.join('; ')}.`,
          };
        },
      };
    });
}
