/** The JSON Schema of rules files, with which editors complete and check them. `rules check` checks the rest. */
import { readFileSync } from 'node:fs';
import { type TSchema, Type } from '@sinclair/typebox';
import { maxReviewers } from '../src/pull-request.ts';
import {
  type FactName,
  type FactType,
  factTable,
  pullRequestFactNames,
  reviewFactNames,
} from '../src/scoring/facts.ts';
import { definitionLimits } from '../src/scoring/language/definitions.ts';
import { expressionLimits } from '../src/scoring/language/syntax.ts';
import { ruleLimits } from '../src/scoring/ruleset.ts';
import { readTables } from './tables.ts';

/** YAML has its own opinion of what stands without quotes; here everything is taken as it is written. */
const anyScalar = (description: string, characters?: number) =>
  Type.Union(
    [
      Type.String({ minLength: 1, ...(characters === undefined ? {} : { maxLength: characters }) }),
      Type.Number(),
      Type.Boolean(),
    ],
    { description },
  );

/** GitHub's counts have 32 bits, and its times whole seconds; only hours have fractions. */
const count = [Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1 }), Type.String({ pattern: '^\\+?\\d{1,10}$' })];
const unixTime = [Type.Integer({ minimum: 0 }), Type.String({ pattern: '^\\+?\\d{1,12}$' })];
const hours = [Type.Number({ minimum: 0 }), Type.String({ pattern: '^\\+?\\d{1,12}(\\.\\d+)?$' })];
const day = Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}(T\\d{2}:\\d{2}:\\d{2}Z)?$' });
const flag = [Type.Boolean(), Type.Enum({ yes: 'true', no: 'false' })];
const text = [Type.String(), Type.Number(), Type.Boolean()];

const formsOf: Record<FactType, TSchema[]> = {
  number: count,
  boolean: flag,
  text,
  list: [Type.Array(Type.Union(text))],
};

const File = Type.Object(
  {
    path: Type.Union(text, { description: 'Its path.' }),
    additions: Type.Optional(Type.Union(count, { description: 'Lines added; 0 if left out.' })),
    deletions: Type.Optional(Type.Union(count, { description: 'Lines removed; 0 if left out.' })),
  },
  { additionalProperties: false },
);
const files = Type.Array(Type.Union([...text, File]));

const documentation = new Map(readTables(readFileSync('docs/rules.md', 'utf8')).map(row => [row.Fact, row]));

function factSchema(name: FactName): TSchema {
  const { Meaning: meaning = '', Unit: unit = 'none' } = documentation.get(`\`${name}\``) ?? {};
  const { type, absence, values } = factTable[name];
  const isTime = name.endsWith('_at');
  const notes = [
    meaning,
    ...(unit === 'none'
      ? []
      : [`In ${unit}${isTime ? ', a day such as 2026-01-31 or a time such as 2026-01-31T12:30:00Z' : ''}.`]),
    ...(absence === undefined ? [] : [`Absent if ${absence}.`]),
  ];
  const forms = (): TSchema[] => {
    if (values !== undefined) return values.map(text => Type.Literal(text));
    if (name === 'files') return [files];
    if (isTime) return [...unixTime, day];
    return name.startsWith('hours_') ? hours : formsOf[type];
  };
  const options = [...forms(), ...(absence === undefined ? [] : [Type.Null()])];
  const description = notes.join(' ').replaceAll('`', '');
  return Type.Union(options, { description });
}

const closed = { additionalProperties: false };

const Entry = Type.Object(
  {
    expression: anyScalar(
      'The condition under which the effect counts, such as: merged && size <= 200. It must be true or false.',
      expressionLimits.characters,
    ),
    effect: Type.Object(
      {
        action: Type.Union([Type.Literal('ADD'), Type.Literal('SUBTRACT')], {
          description: 'Whether the value is added to the score or subtracted from it.',
        }),
        value: anyScalar(
          'How much: a number, or an expression that gives one, such as: min(20, per(additions, 50)). It is rounded to the nearest whole number.',
          expressionLimits.characters,
        ),
      },
      { ...closed, description: 'What counts where the expression is true.' },
    ),
  },
  closed,
);

const Rule = Type.Object(
  {
    name: anyScalar(
      'By its name a rule is known; each has its own, in one line. It stands in the breakdown.',
      ruleLimits.nameCharacters,
    ),
    description: Type.Optional(
      Type.Union(
        [Type.String({ maxLength: ruleLimits.descriptionCharacters }), Type.Number(), Type.Boolean(), Type.Null()],
        { description: 'What the rule is for.' },
      ),
    ),
    enabled: Type.Optional(
      Type.Union(flag, { default: true, description: 'A rule that is switched off counts for nothing.' }),
    ),
    when: Type.Optional(
      anyScalar(
        'A condition for all entries: each counts only if it is true, too. It must be true or false.',
        expressionLimits.characters,
      ),
    ),
    logic: Type.Array(Entry, {
      minItems: 1,
      maxItems: ruleLimits.entries,
      description: 'The entries; each stands alone, and any number of them may count.',
    }),
  },
  closed,
);

const facts = (names: readonly FactName[]) =>
  Object.fromEntries(names.map(name => [name, Type.Optional(factSchema(name))]));

const score = Type.Union([Type.Integer(), Type.String({ pattern: '^[-+]?\\d{1,10}$' })], {
  description: 'The score that the rules must give.',
});

const Test = Type.Object(
  {
    name: anyScalar('What the test shows.'),
    pull_request: Type.Object(facts(pullRequestFactNames), {
      ...closed,
      description:
        'The facts that matter. The others are 0, empty, false or absent, the state open; what follows from given ones is worked out.',
    }),
    reviews: Type.Optional(
      Type.Union(
        [
          Type.Array(Type.Object({ ...facts(reviewFactNames), score }, closed), { maxItems: maxReviewers }),
          Type.Null(),
        ],
        {
          description: 'Its reviews: the facts of each that matter, and the score that it must get.',
        },
      ),
    ),
    score: Type.Optional(score),
  },
  { ...closed, anyOf: [{ required: ['score'] }, { required: ['reviews'] }] },
);

const Definitions = Type.Record(
  Type.String({ pattern: `^[A-Za-z]\\w{0,${definitionLimits.nameCharacters - 1}}$` }),
  Type.Union([anyScalar('An expression of any type.', expressionLimits.characters), Type.Array(Type.Union(text))], {
    description: 'An expression of any type, or a list of texts.',
  }),
  { ...closed, maxProperties: definitionLimits.definitions },
);

export const RulesFile = Type.Object(
  {
    define: Type.Optional(
      Type.Union([Definitions, Type.Null()], {
        description: 'Names for expressions, which rules and other definitions use like facts.',
      }),
    ),
    rules: Type.Array(Rule, {
      maxItems: ruleLimits.rules,
      description: 'The rules, in the order in which the breakdown shows them.',
    }),
    reviews: Type.Optional(
      Type.Union([Type.Array(Rule, { maxItems: ruleLimits.rules }), Type.Null()], {
        description: 'Rules that give points to the people who reviewed a pull request.',
      }),
    ),
    tests: Type.Optional(
      Type.Union([Type.Array(Test), Type.Null()], {
        description: 'Pull requests and the scores that they must have; `rules check` runs them.',
      }),
    ),
  },
  {
    $schema: 'http://json-schema.org/draft-07/schema#',
    ...closed,
    title: 'Rules of pullscore',
    description: "An organisation's rules and their tests. docs/rules.md tells what expressions can say.",
  },
);
