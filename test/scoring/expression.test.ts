import fc from 'fast-check';
import { isEnumType } from 'graphql';
import { expect, test } from 'vitest';
import { factTable } from '../../src/scoring/facts.ts';
import { parseExpression } from '../../src/scoring/language/expression.ts';
import type { Value } from '../../src/scoring/language/functions.ts';
import { githubSchema } from '../support/github/schema.ts';
import { within } from './processor-time.ts';
import { evaluate, problemOf } from './support.ts';

const outside =
  'constructor|__proto__|toString|valueOf()|hasOwnProperty("size")|__defineGetter__("a", 1)|this|globalThis|process|' +
  'eval("1")|Function("return 1")()|facts|k0|round|arguments|a["con" + "structor"]|"a"[0]|title?.length|title.bind';

test.each(outside.split('|'))('the expression %s reaches nothing and is refused', source => {
  expect(problemOf(source)).not.toBe('accepted');
});

test.each([
  // jsep would accept these, or say less.
  ['size in []', 'a value is missing between `[` and `]`'],
  ['`a` == title', 'is not part'],
  ['/a/', 'a value is missing before `/`'],
  ['size > 1 // more', 'a value is missing between `/` and `/`'],
  ['{} == {}', '`{` is not part'],
  ['[1, 2]', 'a list in square brackets is only allowed after `in`'],
  ['true(1)', '`true` is not a known function'],
  ['this(1)', '`this` is not a known function'],
  ['this', '`this` is not a known fact'],
  ['undefined', '`undefined` is not a value of the rule language'],
  ['"yes"', '`"yes"` is a text, but a condition must be true or false'],
  ['labels', '`labels` is a list'],
  ['!size', '`size` is a number, but `!` needs true or false'],
  ['-title > 1', '`title` is a text, but `-` needs a number'],
  ['title + "x" == "y"', '`title` is a text, but both sides of `+` must be a number'],
  ['labels == labels', "which `==` can't compare"],
  ['merged < draft', "which `<` can't compare"],
  ['size && merged', '`size` is a number, but both sides of `&&` must be true or false'],
  ['(size ? 1 : 2) > 1', '`size` is a number, but the condition before `?` must be true or false'],
  ['merged ? 1 : draft', '`1` is a number and `draft` is true or false'],
  ['5 in labels', '`5` is a number, but the left side of `in` must be a text'],
  ['title in body', '`body` is a text, but the right side of `in` must be a list'],
  ['title in ["a", 1]', '`1` is a number, but `title` can only equal a text'],
  ['title in ["a", body]', '`body` is computed'],
  ['!merged in labels', '`!merged` is true or false'],
  ['merged in [true]', '`merged` is true or false, but `in` looks for a number or a text'],
  ['min', '`min` is a function; call it, as in `min(a, b, …)`'],
  ['lower() == ""', '`lower()` has 0 values, but `lower(text)` takes 1'],
  ['lower(title, body) == ""', '`lower(title, body)` has 2 values, but `lower(text)` takes 1'],
  ['(size in ([1, 2])) + 1 > 0', '`size in ([1, 2])` is true or false, but both sides of `+` must be'],
  ['(merged ? 1 : 2) && merged', '`merged ? 1 : 2` is a number, but both sides of `&&` must be'],
  ['size() > 1', '`size` is not a known function; it is a fact'],
  ['count_files() > 0', '`count_files()` has 0 values, but `count_files("glob", …)` takes 1 or more'],
  ['contains(size, "a")', '`size` is a number, but `contains` takes a text or a list'],
  ['contains(title, 5)', '`5` is a number, but here `contains(text, part)` takes a text'],
  ['any_file("src/**", title)', '`title` is not a quoted text'],
  ['matches(title, "(a")', 'is not a pattern in RE2 syntax: missing closing )'],
])('the expression %j is refused before it runs', (source, message) => {
  expect(problemOf(source)).toContain(message);
});

test('the page that lists all functions is suggested if no name is near', () => {
  expect(problemOf('weather() > 1')).toBe('`weather` is not a known function; docs/rules.md lists all functions');
});

test('a name of the clock or the calendar gets the answer that there is none', () => {
  const none = 'there is no clock and no calendar: rules read facts such as `created_at`, and `date("2026-01-31")`';
  expect(problemOf('month(created_at) > 1')).toBe(`\`month\` is not a known function; ${none}`);
  expect(problemOf('Today == merged_at')).toBe(`\`Today\` is not a known fact; ${none}`);
});

const root = "paths begin at the repository's root without `/`";
const folder = 'no path ends with `/`';

test.each([
  ['lines_except("**/*.lock", "./dist/**") > 0', './dist/**', root, 'dist/**'],
  ['all_files("src/")', 'src/', folder, 'src/**'],
  ['count_files("./src/") > 0', './src/', root, 'src/**'],
  ['any_file("/")', '/', root, '**'],
])('a glob that matches no file is refused in %s', (source, glob, why, instead) => {
  expect(problemOf(source)).toContain(`has the glob \`${glob}\`, which matches no file: ${why}; write \`${instead}\``);
});

test('a glob that matches no file may match another text', () => {
  expect(problemOf('glob(title, "/src/")')).toBe('accepted');
});

test.each([
  ['state != "Merged"', 'Merged', 'merged'],
  ['"Merged" == state', 'Merged', 'merged'],
  ['("opn") != (state)', 'opn', 'open'],
  ['!(state in (["close"])) && draft', 'close', 'closed'],
  ['state == (draft ? "draft" : "opened")', 'opened', 'open'],
  ['(draft ? "Draft" : "open") == state', 'Draft', 'draft'],
  ['"First-Time-Contributor" != author_association', 'First-Time-Contributor', 'FIRST_TIME_CONTRIBUTOR'],
])('the comparison %s is refused with the nearest value of its fact', (source, text, nearest) => {
  const [fact] = /state|author_association/.exec(source) ?? [];
  expect(problemOf(source)).toBe(`\`"${text}"\` is not a value of \`${fact}\`; did you mean \`"${nearest}"\`?`);
});

test('a refused comparison lists all values of its fact if none is near', () => {
  expect(problemOf('state == "finished"')).toBe(
    '`"finished"` is not a value of `state`; its values are `"open"`, `"draft"`, `"closed"`, `"merged"`',
  );
});

test.each([
  'state == "merged" || "closed" == state || state in ["open", "draft"]',
  'lower(author_association) == "member"',
  'state == title || title == "Merged" || state < "n"',
  'starts_with(state, "m")',
])('the expression %s is accepted', source => {
  expect(problemOf(source)).toBe('accepted');
});

test('author_association has the values that GitHub has', () => {
  const association = githubSchema().getType('CommentAuthorAssociation');
  const names = isEnumType(association) ? association.getValues().map(({ name }) => name) : [];
  expect([...(factTable.author_association.values ?? [])].sort()).toEqual(names.sort());
});

const glob = 'put a glob in quotes, as in `any_file("src/**")`';

test.each([
  [`'2026-01-31T10:00:00Z' <= merged_at`, 'write `date("2026-01-31")`'],
  ['created_at - "2026-01-01" > 5', 'write `date("2026-01-01")`'],
  ['created_at > 2026-12-31', 'write `date("2026-12-31")`'],
  ['size > "5"', 'write `5` without quotes'],
  ['size > "large"', ''],
  ['2 <= (labels)', 'write `2 <= length(labels)`'],
  ['matches(labels, "^area")', 'write `any_label("area/*")`'],
  ['IF (merged) > 5', 'write `merged ? 10 : 0`'],
  ['if(draft ? merged : true, 1, 0) > 5', 'write `merged ? 10 : 0`'],
  ["merged && lower(title)=~'a b'", "write `matches(lower(title), 'a b')`"],
  ['title =~ /^fix/', 'call `matches(text, "pattern")`'],
  ['=~ "a"', 'call `matches(text, "pattern")`'],
  ['!title . ends_with ( head )', 'write `ends_with(title, head)`'],
  ['labels.includes("bug")', 'write `contains(labels, "bug")`'],
  ['title.toLowerCase() == "fix"', 'write `lower(title)`'],
  ['labels.hasLabel("bug")', 'call `has_label(name)`'],
  ['-Math.round(size / 10) < 1', 'write `round` without `Math.`'],
  ['Math.pow(size, 2) > 4', 'values have no members; call functions as in `length(title)`'],
  ['has_label(good-first-issue)', 'did you mean the text `"good-first-issue"`?'],
  ['has_label(merge)', 'did you mean `merged`, or the text `"merge"`?'],
  ['has_label(draft)', 'did you mean the text `"draft"`?'],
  ['any_file(src/a)', 'did you mean the text `"src/a"`?'],
  ['base == main', 'did you mean the text `"main"`?'],
  ['author in ["ada", bob]', 'did you mean the text `"bob"`?'],
  ['has_label(a + b)', 'docs/rules.md lists all facts'],
  ['min(weather, 1) > 0', 'docs/rules.md lists all facts'],
  ['exists(size > 1)', 'docs/rules.md lists all functions'],
  ['state == merged', 'did you mean the text `"merged"`?'],
  ['"false" == merged', 'write `false` without quotes, or just `!merged`'],
  ['merged != "true"', 'write `true` without quotes, or just `!merged`'],
  ['(size > 5) != "false"', 'write `false` without quotes'],
  ['merged > "true"', 'write `true` without quotes'],
  ['merged == "yes"', ''],
  ['merged < 10', ''],
  ['size == 5 == 6', ''],
  ['5 < (draft ? 1 : 2) < 3', ''],
  ['author in (renovate, dependa-bot)', 'write `["renovate", "dependa-bot"]`'],
  [`author in ( "ada", 'bob')`, `write \`["ada", 'bob']\``],
  ['number in (1, -2)', 'write `[1, -2]`'],
  ['size >= 1,234,567 && merged', 'write `1234567`'],
  ['approvals =< 2', 'write `<=`'],
  ['approvals <> 2', 'write `!=`'],
  ['any_file(src/**)', glob],
  ['any_file(**/*.ts)', glob],
  ['any_file("a", *)', glob],
  ['any_file(src/*)', glob],
  ['labels != [ ]', 'write `length(labels) > 0`'],
  ['[] == files', 'write `length(files) == 0`'],
  ['title == []', 'write `length(title) == 0`'],
  ['size == []', ''],
  ['labels == ["bug", "urgent"]', 'write `"bug" in labels && "urgent" in labels`'],
  ['labels != ["bug"]', 'write `!("bug" in labels)`'],
  ['state == ["open", "draft"]', 'write `state in ["open", "draft"]`'],
  ['number != [1]', 'write `!(number in [1])`'],
  ['"" == labels', 'write `length(labels) == 0`'],
  ['labels > "bug"', ''],
  ['labels == null', 'an absent value compares false'],
  ['title > null', 'an absent value compares false'],
  ['title like "fix"', 'write `matches(title, "fix")`'],
  ['merged && author not in ["ada", "bob"]', 'write `!(author in ["ada", "bob"])`'],
  ['"bug" NOT IN labels', 'write `!("bug" in labels)`'],
  ['title and "fix"', 'and, or, not are written `&&`, `||`, `!`'],
  ['title foo "fix"', ''],
  ['milestone is null', 'write `!known(milestone)`'],
  ['merged_at IS NOT NULL', 'write `known(merged_at)`'],
  ['exists(milestone)', 'write `known(milestone)`'],
  ['is_null(merged_by)', 'write `!known(merged_by)`'],
  ['hours_to_merge == null', 'write `!known(hours_to_merge)`'],
  ['None != milestone', 'write `known(milestone)`'],
  ['is_bot(author)', 'write `author_is_bot`'],
  ['file_count > 1', 'write `changed_files`'],
  ['num_files > 1', 'write `changed_files`'],
  ['draft == yes', 'write `true`'],
  ['size > 100k', 'write `100000`'],
  ['size > 1x0', ''],
  ['hours_to_merge < 24h', 'write `24`, as durations are in hours'],
  ['hours_to_merge < 2days', 'write `48`, as durations are in hours'],
  ['contains(title, "a", "b")', 'write `contains(title, "a") || contains(title, "b")`'],
  ['startswith(title, "a")', 'did you mean `starts_with`?'],
  ['is_bot', 'did you mean `author_is_bot`?'],
  ['label("bug")', 'did you mean `has_label`?'],
  ['len(files) > 1', 'did you mean `length`?'],
])('the message about %s suggests what was probably meant, or nothing: %s', (source, hint) => {
  const [problem = '', ...hints] = problemOf(source).split('; ');
  expect(problem).not.toBe('accepted');
  expect(hints.join('; ')).toBe(hint);
});

test('an expression may have 32 levels', () => {
  expect(problemOf(`${'!'.repeat(31)}merged`)).toBe('accepted');
  expect(problemOf(`${'!'.repeat(32)}merged`)).toContain('nested deeper than 32 levels');
  expect(problemOf(Array.from({ length: 32 }, () => '1').join('+'), 'number')).toBe('accepted');
  expect(problemOf(Array.from({ length: 33 }, () => '1').join('+'), 'number')).toContain('deeper than 32');
});

test.each([
  ['5,000 nested brackets', `${'('.repeat(5000)}1${')'.repeat(5000)}`],
  ['5,000 open brackets', '('.repeat(5000)],
  ['2,000 open brackets', '('.repeat(2000)],
  ['1,999 operators', '!'.repeat(1999)],
  ['1,999 open lists', '['.repeat(1999)],
  ['calls in calls', 'min('.repeat(499)],
  ['choices in choices', 'merged?'.repeat(285)],
  ['choices after choices', 'merged?1:'.repeat(222)],
  ['40 KB of a+a+…', `${'a+'.repeat(20_000)}a`],
  ['a 10 MB string', `"${'a'.repeat(10_000_000)}" == title`],
  ['10 MB of spaces', ' '.repeat(10_000_000)],
  ['10 MB of emoji', '\u{1F642}'.repeat(5_000_000)],
])('an expression of %s is refused within 50 ms', (_, source) => {
  expect(within(50, () => problemOf(source))).not.toBe('accepted');
});

const facts = { size: 10, additions: 7, deletions: 3, title: 'fix: it', labels: ['Bug', 'p1'], merged: true };

test.each<[string, Value]>([
  ['- - 2', 2],
  ['1e3 + 0.5', 1000.5],
  ['additions + deletions == size', true],
  ['!merged == draft', true],
  ['merged ? draft ? 1 : 2 : 3', 2],
  ['size in [1, 10, 100]', true],
  ['size in [1, -10]', false],
  ['-size in [-10]', true],
  ['"p1" in labels', true],
  ['"bug" in labels', false],
  ['title in ["fix: it"] && merged', true],
  ['\'a"b\' == "a\\"b"', true],
  ['"\\u0041\\n\\t\\\\" == "A\\n\\t\\\\"', true],
  ['"\\u0041" == "u0041"', false],
  ['"\uFF5E" < "\u{1F642}"', true],
  ['lower(title) == title', true],
  ['(merged ? title : milestone) == title', true],
  ['(draft ? title : milestone) == title', false],
  ['1 / 0 == 1 / 0', true],
  ['1 / 0 - 1 / 0 == 0', false],
  ['0 == -0', true],
  ['1 / -0 < 0', true],
  ['length(labels) + length(title)', 9],
])('the value of %s is %j', (source, expected) => {
  expect(evaluate(source, facts)).toStrictEqual(expected);
});

test.each('== != < <= > >='.split(' '))('numbers and texts compare by %s as in JavaScript', operator => {
  const compare = new Function('one', 'other', `return one ${operator} other`) as (...sides: unknown[]) => boolean;
  for (const other of [9, 10, 11]) expect(evaluate(`size ${operator} ${other}`, facts)).toBe(compare(10, other));
  for (const other of ['fix: is', 'fix: it', 'fix: iu']) {
    expect(evaluate(`title ${operator} "${other}"`, facts)).toBe(compare('fix: it', other));
  }
});

test('an absent value compares false, even with itself or by !=', () => {
  for (const operator of ['==', '!=', '<', '<=', '>', '>=']) {
    for (const source of [`hours_to_merge ${operator} 5`, `5 ${operator} hours_to_merge`]) {
      expect(evaluate(source, { hours_to_merge: null })).toBe(false);
    }
    expect(evaluate(`hours_to_merge ${operator} hours_to_merge`, { hours_to_merge: null })).toBe(false);
    expect(evaluate(`milestone ${operator} "v1"`, { milestone: null })).toBe(false);
    expect(evaluate(`milestone ${operator} milestone`, { milestone: null })).toBe(false);
  }
});

test('an absent value makes numbers absent and conditions false', () => {
  const absent = { hours_to_merge: null, milestone: null };
  for (const source of ['-hours_to_merge * 0', 'min(1, hours_to_merge)', 'length(milestone)', '0 / 0']) {
    expect(evaluate(source, absent)).toBeNaN();
  }
  for (const source of ['contains(labels, milestone)', 'glob(milestone, "**")', 'milestone in labels']) {
    expect(evaluate(source, absent)).toBe(false);
  }
  expect(evaluate('!(hours_to_merge < 24)', absent)).toBe(true);
});

test('operators bind as in JavaScript', () => {
  const number = fc.constantFrom('1', '2', '3', '10', '-4');
  const operator = fc.constantFrom('+', '-', '*', '/', '%');
  const sum = fc
    .tuple(number, fc.array(fc.tuple(operator, number), { maxLength: 6 }))
    .map(([first, rest]) => [first, ...rest.flat()].join(' '));
  const comparison = fc
    .tuple(sum, fc.constantFrom('<', '<=', '>', '>=', '==', '!='), sum)
    .map(parts => parts.join(' '));
  const condition = fc
    .tuple(comparison, fc.array(fc.tuple(fc.constantFrom('&&', '||', '=='), comparison), { maxLength: 4 }))
    .map(([first, rest]) => [first, ...rest.flat()].join(' '));
  const whole = fc.tuple(condition, sum, sum).map(([test, one, two]) => `${test} ? ${one} : ${two}`);
  fc.assert(
    fc.property(whole, source => {
      const expected: unknown = new Function(`return ${source}`)();
      let actual: Value | null;
      try {
        actual = evaluate(source);
      } catch (error) {
        // `a == b < c` compares a number with a boolean, which JavaScript allows.
        expect(error).toMatchObject({ message: expect.stringContaining('compare') });
        return;
      }
      expect(actual).toBe(expected);
    }),
  );
});

test('each part of an expression knows its place in the source', () => {
  const source = ' ( (size) + 1 ) * -(2) > min( additions, (3) ) && !(title in ["a"])';
  const tree = parseExpression(source, 'boolean');
  const parts: string[] = [];
  const visit = (part: unknown): void => {
    if (part === null || typeof part !== 'object') return;
    const { kind, start, end } = part as { kind?: string; start: number; end: number };
    if (kind !== undefined) parts.push(`${kind} ${source.slice(start, end)}`);
    for (const [name, child] of Object.entries(part)) if (name !== 'definition') visit(child);
  };
  visit(tree);
  expect(parts).toEqual([
    `logical ${source.trim()}`,
    'comparison ( (size) + 1 ) * -(2) > min( additions, (3) )',
    'arithmetic ( (size) + 1 ) * -(2)',
    'arithmetic (size) + 1',
    'fact size',
    'constant 1',
    'negation -(2)',
    'constant 2',
    'call min( additions, (3) )',
    'fact additions',
    'constant 3',
    'not !(title in ["a"])',
    'oneOf title in ["a"]',
    'fact title',
  ]);
});
