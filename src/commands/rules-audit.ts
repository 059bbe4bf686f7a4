import { type AuditDocument, readAudit, rounding } from '../reports/audit.ts';
import { maxAudited } from '../scorer/plan.ts';
import { wayDescriptions } from '../scoring/plan/way-descriptions.ts';
import { fixedPercent, formatInteger, percent, signed, twoDecimals } from '../text/number-formats.ts';
import { grid, labelled, plain, right } from '../text/terminal.ts';
import type { PullscoreCommand } from './command.ts';
import { type Context, parseNumber } from './context.ts';
import { withProgress } from './progress.ts';
import { loadRules } from './rules-file.ts';

const maxPaying = 3;

function auditText(
  { organisation, pull_requests: audited, stored_pull_requests: stored, ways, reviews }: AuditDocument,
  width: number,
): string {
  if (stored === 0) return `No pull requests of ${organisation} are stored yet: there is nothing to search.`;
  const scope =
    audited < stored
      ? `a sample of ${formatInteger(audited)} of ${formatInteger(stored)}`
      : `all ${formatInteger(stored)}`;
  const lines = [
    `How these rules can be gamed: ${scope} pull requests of ${organisation}, changed and scored again`,
    '',
    ...waysText(ways, audited, width),
    ...(reviews ? ['', 'By reviews:', '', ...waysText(reviews.ways, audited, width)] : []),
  ];
  return lines.join('\n').trimEnd();
}

type AuditedWay = AuditDocument['ways'][number] | NonNullable<AuditDocument['reviews']>['ways'][number];

function waysText(ways: readonly AuditedWay[], audited: number, width: number): string[] {
  const gaining = ways.filter(({ share }) => share > 0);
  const others = ways.filter(({ share }) => share === 0);
  const lines: string[] = [];
  if (gaining.length > 0) {
    const rows = gaining.map(({ way, share, median_gain: median, largest_gain: largest }) => [
      wayDescriptions[way],
      fixedPercent(share * audited, audited),
      signed(median, twoDecimals),
      signed(largest),
    ]);
    const paidBy = ({ rules }: AuditedWay) =>
      rules
        .slice(0, maxPaying)
        .map(rule => `${plain(rule.name)} ${percent(rule.share, 1)}`)
        .join(', ');
    const examples = gaining.flatMap(({ way, example }) =>
      example === null
        ? []
        : [[wayDescriptions[way], `${formatInteger(example.before)} → ${formatInteger(example.after)}`, example.url]],
    );
    const [heading = '', ...found] = grid(['WAY', right('GAINS ON'), right('MEDIAN'), right('LARGEST')], rows);
    const payers = gaining.map(way => labelled('  paid by ', paidBy(way), width));
    lines.push(heading, ...found.flatMap((line, index) => [line, ...(payers[index] ?? [])]), '');
    lines.push(...grid(['EXAMPLE', right('SCORE'), 'ADDRESS'], examples), '');
  }
  if (others.length > 0) {
    lines.push(...labelled('No gain from: ', `${others.map(({ way }) => wayDescriptions[way]).join('; ')}.`, width));
  }
  return lines;
}

const parsePercentage = (text: string): number =>
  parseNumber(text, /^\d{1,3}(\.\d+)?%$/, 'share', 'a percentage such as 5%', 100);

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
        read: (deps, { id }) =>
          withProgress(context, 'pull requests', options => readAudit(deps, id, ruleset, options)),
        ask: service => service.ask({ method: 'POST', path: 'rules/audit', rules: ruleset.source }),
        show(document) {
          const ways = [...document.ways, ...(document.reviews?.ways ?? [])];
          const over = ways.filter(({ share }) => share * 100 > limit + rounding);
          const names = over.map(({ way, share }) => `${wayDescriptions[way]} (${percent(share, 1)})`);
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
