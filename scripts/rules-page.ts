/** The tables of docs/rules.md, generated from the code. */
import { type FactDescription, factDescriptions } from '../src/scoring/fact-descriptions.ts';
import { absenceReasons, type FactName, factTypes, isOptionalFact } from '../src/scoring/facts.ts';
import { type FunctionDefinition, functions } from '../src/scoring/functions.ts';

const factNames = Object.keys(factTypes) as FactName[];

const factGroups: Record<string, (name: FactName) => boolean> = {
  counts: name => factTypes[name] === 'number' && !name.endsWith('_at') && !name.startsWith('hours_'),
  times: name => name.endsWith('_at') || name.startsWith('hours_'),
  texts: name => factTypes[name] === 'text',
  booleans: name => factTypes[name] === 'boolean',
  lists: name => factTypes[name] === 'list',
};

const escapeCell = (text: string) => text.replaceAll('|', '\\|');
const code = (text: string) => `\`${text}\``;

function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(escapeCell).join(' | ')} |`;
  return [line(headings), `|${' --- |'.repeat(headings.length)}`, ...rows.map(line)].join('\n');
}

/** How old a fact can be, with the webhooks that refresh it. */
function ageOf({ webhooks, otherwise }: FactDescription): string {
  const byWebhook = webhooks.length === 0 ? [] : [`seconds (${webhooks.map(code).join(', ')})`];
  return [...byWebhook, ...(otherwise === undefined ? [] : [otherwise])].join('; ') || 'never changes';
}

function factTable(group: string): string {
  const isInGroup = factGroups[group];
  if (isInGroup === undefined) throw new Error(`unknown group of facts: ${group}`);
  const names = factNames.filter(isInGroup);
  const hasUnits = names.some(name => factDescriptions[name].unit !== undefined);
  const canBeAbsent = names.some(isOptionalFact);
  const rows = names.map(name => {
    const description = factDescriptions[name];
    const { meaning, unit = '', sources } = description;
    const absent = isOptionalFact(name) ? absenceReasons[name] : 'never';
    return [
      code(name),
      meaning,
      ...(hasUnits ? [unit] : []),
      sources.map(code).join(', '),
      ...(canBeAbsent ? [absent] : []),
      ageOf(description),
    ];
  });
  return table(
    [
      'Fact',
      'Meaning',
      ...(hasUnits ? ['Unit'] : []),
      'On GitHub',
      ...(canBeAbsent ? ['Absent if'] : []),
      'Maximum age',
    ],
    rows,
  );
}

type Example = FunctionDefinition['example'];

/** The facts of an example as a test in a rules file gives them. */
function writeFacts({ files, file_changes: changes, ...others }: Example['facts']): string {
  const withLines = (path: string, index: number) => {
    const [additions, deletions] = changes?.slice(3 * index) ?? [];
    return `{path: ${path}, additions: ${additions}, deletions: ${deletions}}`;
  };
  const given: Example['facts'] = { ...others, ...(files === undefined || changes !== undefined ? {} : { files }) };
  return [
    ...Object.entries(given).map(([name, value]) => `${name}: ${JSON.stringify(value).replaceAll('","', '", "')}`),
    ...(Array.isArray(files) && changes !== undefined ? [`files: [${files.map(withLines).join(', ')}]`] : []),
  ].join(', ');
}

function functionTable(names: string): string {
  const definitions = names.split(' ').flatMap(name => {
    const found = functions.get(name);
    if (found === undefined) throw new Error(`unknown function: ${name}`);
    return found;
  });
  return table(
    ['Function', 'Gives', 'Example', 'With', 'Result'],
    definitions.map(({ signature, description, example }) => [
      code(signature),
      description,
      code(example.expression),
      code(writeFacts(example.facts)),
      code(JSON.stringify(example.result)),
    ]),
  );
}

const tables: Record<string, (argument: string) => string> = { facts: factTable, functions: functionTable };

/** Replaces the tables between their marks. */
export function renderRulesPage(page: string): string {
  return page.replace(
    /(<!-- (\w+): ([\w ]+) -->)[\s\S]*?(<!-- end -->)/g,
    (_, start: string, kind: string, argument: string, end: string) => {
      const render = tables[kind];
      if (render === undefined) throw new Error(`unknown table: ${kind}`);
      return `${start}\n\n${render(argument)}\n\n${end}`;
    },
  );
}
