/**
 * Side-by-side measurements: `npm run bench`, or `npm run bench -- NAME…` for some of them. Every figure is a ratio
 * of medians within one run, since the machine's speed drifts; the target stands beside it.
 */

/** Each in the file of its name. */
const benchmarks = [
  ...['expressions', 'reads', 'filters', 'lists', 'page', 'changes', 'replicas', 'ingest', 'github', 'tenants'],
  ...['rescore', 'plan', 'cold-start'],
];

const operands = process.argv.slice(2);
const unknown = operands.find(name => !benchmarks.includes(name));
if (unknown !== undefined) {
  process.stderr.write(`"${unknown}" is not a benchmark; choose from ${benchmarks.join(', ')}.\n`);
  process.exit(2);
}
for (const name of operands.length === 0 ? benchmarks : operands) {
  process.stdout.write(`\n${name}\n`);
  const { measure } = (await import(`./${name}.ts`)) as { measure(): Promise<void> };
  await measure();
}
