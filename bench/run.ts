/**
 * Side-by-side measurements: `npm run bench`, or `npm run bench -- NAME…` for some of them. Every figure is a ratio
 * of medians within one run, since the machine's speed drifts; the target stands beside it.
 */
import { measureChanges } from './changes.ts';
import { measureColdStart } from './cold-start.ts';
import { measureExpressions } from './expressions.ts';
import { measureFilters } from './filters.ts';
import { measureGithubRequests } from './github.ts';
import { measureGithubAsItIs } from './github-as-it-is.ts';
import { measureIngest } from './ingest.ts';
import { measureLists } from './lists.ts';
import { measurePage } from './page.ts';
import { measurePlan } from './plan.ts';
import { measureReads } from './reads.ts';
import { measureReplicas } from './replicas.ts';
import { printRows, type Row } from './report.ts';
import { measureRescoring } from './rescore.ts';
import { measureTenants } from './tenants.ts';

const benchmarks: Record<string, () => Promise<Row[]>> = {
  expressions: measureExpressions,
  reads: measureReads,
  filters: measureFilters,
  lists: measureLists,
  page: measurePage,
  changes: measureChanges,
  replicas: measureReplicas,
  ingest: measureIngest,
  github: async () => [...(await measureGithubRequests()), ...(await measureGithubAsItIs())],
  tenants: measureTenants,
  rescore: measureRescoring,
  plan: measurePlan,
  'cold-start': measureColdStart,
};

const operands = process.argv.slice(2);
const names = operands.length === 0 ? Object.keys(benchmarks) : operands;
const chosen = names.map(name => {
  const measure = benchmarks[name];
  if (measure === undefined) {
    process.stderr.write(`"${name}" is not a benchmark; choose from ${Object.keys(benchmarks).join(', ')}.\n`);
    process.exit(2);
  }
  return { name, measure };
});
for (const { name, measure } of chosen) {
  process.stdout.write(`\n${name}\n`);
  printRows(await measure());
}
