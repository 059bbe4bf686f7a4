import fc from 'fast-check';
import { isEnumType } from 'graphql';
import { describe, expect, test } from 'vitest';
import { factTable } from '../../src/scoring/facts.ts';
import { parseExpression } from '../../src/scoring/language/expression.ts';
import type { Value } from '../../src/scoring/language/functions.ts';
import { githubSchema } from '../support/github/schema.ts';
import { processorTime } from './processor-time.ts';
import { evaluate, problemOf } from './support.ts';

describe('names outside the rule language', () => {
  test.each([
    'constructor',
    '__proto__',
    'toString',
    'valueOf()',
    'hasOwnProperty("size")',
    '__defineGetter__("a", 1)',
    'this',
    'this(1)',
    'globalThis',
    'process',
    'eval("1")',
    'Function("return 1")()',
    'facts',
    'k0',
    'round',
    'arguments',
  ])('the expression %s reaches nothing and is refused', source => {
    expect(problemOf(source)).not.toBe('accepted');
  });

  test.each([
    ['a["con" + "structor"]', '`[` after `a` is member access'],
    ['title.length > 1', '`.` is not part of the rule language'],
    ['contains.bind(title)', '`.` is not part'],
    ['title?.length', '`?.` is not part'],
    ['(title)(1)', "`(` can't follow `(title)`"],
    ['min(1, 2)(3)', "`(` can't follow `min(1, 2)`"],
    ['"a"[0]', '`[` after `"a"` is member access'],
    ['this', '`this` is not a known fact'],
    ['undefined', '`undefined` is not a value of the rule language'],
  ])('the expression %s is refused with a message that names its mistake', (source, message) => {
    expect(problemOf(source)).toContain(message);
  });
});

describe('what jsep would accept', () => {
  test.each([
    ['', 'it is empty'],
    [' \n ', 'it is empty'],
    ['()', 'a value is missing between `(` and `)`'],
    ['a b', 'an operator or a comma is missing between `a` and `b`'],
    ['a; b', '`;` is not part'],
    ['merged, draft', '`,` is only allowed in a call or a list'],
    ['(merged, draft)', '`,` is only allowed in a call or a list'],
    ['new Date()', 'missing between `new` and `Date`'],
    ['min(1 2) > 0', 'missing between `1` and `2`'],
    ['min(1,) > 0', 'a value is missing between `,` and `)`'],
    ['size in [1,,2]', 'a value is missing between `,` and `,`'],
    ['size in []', 'a value is missing between `[` and `]`'],
    ['size in [1 2]', 'missing between `1` and `2`'],
    ['size > 010', '`010` is not a valid number: numbers have no leading zeros'],
    ['size > 1e999', '`1e999` is too large or too small'],
    ['size > 1e-999', '`1e-999` is too large or too small'],
    [`size > 1${'0'.repeat(400)}`, 'is too large or too small'],
    ['size > 0x10', '`0x10` is not a valid number'],
    ['size > 1_000', '`1_000` is not a valid number'],
    ['size > 1.', '`1.` is not a valid number'],
    ['size > .5', 'write a digit before the decimal point'],
    ['size > 12ab', '`12ab` is not a valid number'],
    ['ti\u00a0tle', 'U+00A0'],
    ['t\u00eftle', 'U+00EF'],
    ['\u{1F642} > 1', 'U+1F642'],
    ['title == "\\d"', '`\\d` is not a valid escape'],
    ['title == "\\u12"', '`\\u` is not a valid escape'],
    ['title == "\\', 'has no closing quote'],
    ['title == "\\\n"', '`\\ ` is not a valid escape'],
    ['title == "a', 'has no closing quote'],
    ['title == "a\nb"', "can't contain the character U+000A"],
    ['title == "\0"', "can't contain the character U+0000"],
    ['size ?? 1', '`??` is not part'],
    ['size ** 2 > 1', '`**` is not part'],
    ['size >>> 2 > 1', '`>>>` is not part'],
    ['size >> 2 > 1', '`>>` is not part'],
    ['~size > 1', '`~` is not part'],
    ['size = 1', 'write `==` to compare'],
    ['size += 1', '`+=` is not part'],
    ['size === 1', 'write `==`'],
    ['size !== 1', 'write `!=`'],
    ['merged & draft', 'write `&&`'],
    ['merged | draft', 'write `||`'],
    ['--size > 1', '`--` is not part'],
    ['+size > 1', 'a value is missing before `+`; write a number without `+`'],
    ['`a` == title', 'is not part'],
    ['/a/', 'a value is missing before `/`'],
    ['size > 1 // more', 'a value is missing between `/` and `/`'],
    ['{} == {}', '`{` is not part'],
    ['merged ? 1', '`?` has no `:`'],
    ['1 : 2', '`:` has no `?`'],
    ['(merged', '`(` has no closing bracket'],
    ['merged)', '`)` has no opening bracket'],
    ['(size in [1)]', '`)` has no opening bracket'],
    ['draft and merged', 'and, or, not are written `&&`, `||`, `!`'],
    ['title in', 'a value is missing after `in`'],
    ['in labels', 'a value is missing before `in`'],
    ['[1, 2]', 'a list in square brackets is only allowed after `in`'],
    ['null', '`null` is not a value'],
    ['true(1)', '`true` is not a known function'],
    ['this(1)', '`this` is not a known function'],
  ])('the expression %j is refused', (source, message) => {
    expect(problemOf(source)).toContain(message);
  });
});

describe('the check of types', () => {
  test.each([
    ['size', '`size` is a number, but a condition must be true or false'],
    ['"yes"', '`"yes"` is a text, but a condition must be true or false'],
    ['labels', '`labels` is a list'],
    ['!size', '`size` is a number, but `!` needs true or false'],
    ['-title > 1', '`title` is a text, but `-` needs a number'],
    ['title + "x" == "y"', '`title` is a text, but both sides of `+` must be a number'],
    ['title == 5', '`title` is a text and `5` is a number, but `==` compares values of the same type'],
    ['labels == labels', "which `==` can't compare"],
    ['merged < draft', "which `<` can't compare"],
    ['1 < size < 3', '`1 < size` is true or false and `3` is a number'],
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
    ['clamp(1, 2)', '`clamp(1, 2)` has 2 values, but `clamp(x, low, high)` takes 3'],
    ['matches(title, 5)', '`5` is not a quoted text, which `matches(text, "pattern")` needs here'],
    ['starts_with(size, "a")', '`size` is a number, but here `starts_with(text, beginning)` takes a text'],
    ['(title in labels) + 1 > 0', '`title in labels` is true or false, but both sides of `+` must be'],
    ['(size in [1, (2)]) + 1 > 0', '`size in [1, (2)]` is true or false, but both sides of `+` must be'],
    ['(size in ([1, 2])) + 1 > 0', '`size in ([1, 2])` is true or false, but both sides of `+` must be'],
    ['!(-size > 1) + 1 > 0', '`!(-size > 1)` is true or false, but both sides of `+` must be'],
    ['((-(size))) && merged', '`-(size)` is a number, but both sides of `&&` must be'],
    ['(-(size) + 1) && merged', '`-(size) + 1` is a number, but both sides of `&&` must be'],
    ['(merged ? 1 : 2) && merged', '`merged ? 1 : 2` is a number, but both sides of `&&` must be'],
    ['size() > 1', '`size` is not a known function; it is a fact'],
    ['count_files() > 0', '`count_files()` has 0 values, but `count_files("glob", …)` takes 1 or more'],
    ['min(1) > 0', '`min(1)` has 1 value, but `min(a, b, …)` takes 2 or more'],
    ['clamp(1, 2, 3, 4) > 0', 'takes 3'],
    ['contains(size, "a")', '`size` is a number, but `contains` takes a text or a list'],
    ['contains(title, 5)', '`5` is a number, but here `contains(text, part)` takes a text'],
    ['matches(title, body)', '`body` is not a quoted text'],
    ['any_file("src/**", title)', '`title` is not a quoted text'],
    ['matches(title, "(a")', 'is not a pattern in RE2 syntax: missing closing )'],
    ['matches(title, "(?=a)")', 'is not a pattern in RE2 syntax'],
    ['matches(title, "(a)\\\\1")', 'is not a pattern in RE2 syntax'],
    ['created_at > date("2026-02-30")', 'is not a valid day'],
    ['created_at > date("yesterday")', 'is not a valid day'],
    ['any_file("!docs/**")', 'put the `!` before the function'],
  ])('the expression %s is refused before it runs', (source, message) => {
    expect(problemOf(source)).toContain(message);
  });

  test('the value of an entry must be a number', () => {
    expect(problemOf('merged', 'number')).toContain('a value must be a number');
    expect(problemOf('title', 'number')).toContain('a value must be a number');
  });

  test.each([
    ['additons > 1', 'did you mean `additions`?'],
    ['changedFiles > 1', 'did you mean `changed_files`?'],
    ['hours_to_mrege > 1', 'did you mean `hours_to_merge`?'],
    ['startswith(title, "a")', 'did you mean `starts_with`?'],
    ['hasLabel("bug")', 'did you mean `has_label`?'],
    ['is_bot', 'did you mean `author_is_bot`?'],
    ['label("bug")', 'did you mean `has_label`?'],
    ['len(files) > 1', 'did you mean `length`?'],
  ])('the nearest name is suggested for %s', (source, message) => {
    expect(problemOf(source)).toContain(message);
  });

  test('the page that lists all names is suggested if no name is near', () => {
    expect(problemOf('weather > 1')).toBe('`weather` is not a known fact; docs/rules.md lists all facts');
    expect(problemOf('weather() > 1')).toBe('`weather` is not a known function; docs/rules.md lists all functions');
  });

  test('a name of the clock or the calendar gets the answer that there is none', () => {
    const none = 'there is no clock and no calendar: rules read facts such as `created_at`, and `date("2026-01-31")`';
    expect(problemOf('month > 1')).toBe(`\`month\` is not a known fact; ${none}`);
    expect(problemOf('hour(created_at) > 1')).toBe(`\`hour\` is not a known function; ${none}`);
    expect(problemOf('merged_at > now() - 86400')).toBe(`\`now\` is not a known function; ${none}`);
    expect(problemOf('Today == merged_at')).toBe(`\`Today\` is not a known fact; ${none}`);
  });
});

describe('a glob that matches no file', () => {
  const root = "paths begin at the repository's root without `/`";
  const folder = 'no path ends with `/`';

  test.each([
    ['any_file("/src/**")', '/src/**', root, 'src/**'],
    ['lines_except("**/*.lock", "./dist/**") > 0', './dist/**', root, 'dist/**'],
    ['all_files("src/")', 'src/', folder, 'src/**'],
    ['count_files("./src/") > 0', './src/', root, 'src/**'],
    ['any_file("/")', '/', root, '**'],
  ])('a glob that matches no file is refused in %s', (source, glob, why, instead) => {
    expect(problemOf(source)).toContain(
      `has the glob \`${glob}\`, which matches no file: ${why}; write \`${instead}\``,
    );
  });

  test('a glob that matches no file may match another text', () => {
    expect(problemOf('glob(title, "/src/")')).toBe('accepted');
  });
});

describe('a fact that has only a few values', () => {
  const wrong = (text: string, fact: string, nearest: string) =>
    `\`"${text}"\` is not a value of \`${fact}\`; did you mean \`"${nearest}"\`?`;

  test.each([
    ['state == "Merged"', 'Merged', 'merged'],
    ['state != "Merged"', 'Merged', 'merged'],
    ['"Merged" == state', 'Merged', 'merged'],
    ['("opn") != (state)', 'opn', 'open'],
    ['state in ["open", "MERGED"]', 'MERGED', 'merged'],
    ['!(state in (["close"])) && draft', 'close', 'closed'],
    ['state == (draft ? "draft" : "opened")', 'opened', 'open'],
    ['(draft ? "Draft" : "open") == state', 'Draft', 'draft'],
  ])('the comparison %s is refused with the nearest value of state', (source, text, nearest) => {
    expect(problemOf(source)).toBe(wrong(text, 'state', nearest));
  });

  test.each([
    ['author_association == "member"', 'member', 'MEMBER'],
    ['author_association in ["OWNER", "COLABORATOR"]', 'COLABORATOR', 'COLLABORATOR'],
    ['"First-Time-Contributor" != author_association', 'First-Time-Contributor', 'FIRST_TIME_CONTRIBUTOR'],
  ])('the comparison %s is refused with the nearest value of author_association', (source, text, nearest) => {
    expect(problemOf(source)).toBe(wrong(text, 'author_association', nearest));
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
});

describe('suggestions of what was probably meant', () => {
  const onlyAfterIn = 'a list in square brackets is only allowed after `in`';
  const mismatch = (one: string, other: string, operator: string) =>
    `${one} and ${other}, but \`${operator}\` compares values of the same type`;

  test.each([
    [
      'created_at > "2026-01-01"',
      `${mismatch('`created_at` is a number', '`"2026-01-01"` is a text', '>')}; write \`date("2026-01-01")\``,
    ],
    [
      `'2026-01-31T10:00:00Z' <= merged_at`,
      `${mismatch("`'2026-01-31T10:00:00Z'` is a text", '`merged_at` is a number', '<=')}; write \`date("2026-01-31")\``,
    ],
    ['size > "5"', `${mismatch('`size` is a number', '`"5"` is a text', '>')}; write \`5\` without quotes`],
    ['size > "large"', mismatch('`size` is a number', '`"large"` is a text', '>')],
    [
      'created_at - "2026-01-01" > 5',
      '`"2026-01-01"` is a text, but both sides of `-` must be a number; write `date("2026-01-01")`',
    ],
    ['files > 3', `${mismatch('`files` is a list', '`3` is a number', '>')}; write \`length(files) > 3\``],
    ['2 <= (labels)', `${mismatch('`2` is a number', '`labels` is a list', '<=')}; write \`2 <= length(labels)\``],
    [
      'glob(labels, "area/*")',
      '`labels` is a list, but here `glob(text, "glob")` takes a text; write `any_label("area/*")`',
    ],
    [
      'glob(files, "src/**")',
      '`files` is a list, but here `glob(text, "glob")` takes a text; write `any_file("src/**")`',
    ],
    [
      'matches(labels, "^area")',
      '`labels` is a list, but here `matches(text, "pattern")` takes a text; write `any_label("area/*")`',
    ],
    ['if(merged, size, 0) > 5', '`if` is not a known function; write `merged ? size : 0`'],
    ['IF (merged) > 5', '`IF` is not a known function; write `merged ? 10 : 0`'],
    ['if(draft ? merged : true, 1, 0) > 5', '`if` is not a known function; write `merged ? 10 : 0`'],
    ['title =~ "^fix"', '`=~` is not part of the rule language; write `matches(title, "^fix")`'],
    ["merged && lower(title)=~'a b'", "`=~` is not part of the rule language; write `matches(lower(title), 'a b')`"],
    ['title =~ /^fix/', '`=~` is not part of the rule language; call `matches(text, "pattern")`'],
    ['=~ "a"', '`=~` is not part of the rule language; call `matches(text, "pattern")`'],
    ['title.startsWith("fix: ")', '`.` is not part of the rule language; write `starts_with(title, "fix: ")`'],
    ['!title . ends_with ( head )', '`.` is not part of the rule language; write `ends_with(title, head)`'],
    ['labels.includes("bug")', '`.` is not part of the rule language; write `contains(labels, "bug")`'],
    ['title.toLowerCase() == "fix"', '`.` is not part of the rule language; write `lower(title)`'],
    ['title.match(/^fix/)', '`.` is not part of the rule language; call `matches(text, "pattern")`'],
    ['labels.hasLabel("bug")', '`.` is not part of the rule language; call `has_label(name)`'],
    [
      'author.email == "a"',
      '`.` is not part of the rule language; values have no members; call functions as in `length(title)`',
    ],
    ['has_label(bug)', '`bug` is not a known fact; did you mean the text `"bug"`?'],
    ['has_label(good-first-issue)', '`good` is not a known fact; did you mean the text `"good-first-issue"`?'],
    ['has_label(merge)', '`merge` is not a known fact; did you mean `merged`, or the text `"merge"`?'],
    [
      'has_label(draft)',
      '`draft` is true or false, but here `has_label(name)` takes a text; did you mean the text `"draft"`?',
    ],
    ['any_file(src/a)', '`src` is not a known fact; did you mean the text `"src/a"`?'],
    ['contains(labels, bug)', '`bug` is not a known fact; did you mean the text `"bug"`?'],
    ['base == main', '`main` is not a known fact; did you mean the text `"main"`?'],
    ['author in ["ada", bob]', '`bob` is not a known fact; did you mean the text `"bob"`?'],
    ['has_label(a + b)', '`a` is not a known fact; docs/rules.md lists all facts'],
    ['min(weather, 1) > 0', '`weather` is not a known fact; docs/rules.md lists all facts'],
    [
      'state == merged',
      `${mismatch('`state` is a text', '`merged` is true or false', '==')}; did you mean the text \`"merged"\`?`,
    ],
    [
      'merged == "true"',
      `${mismatch('`merged` is true or false', '`"true"` is a text', '==')}; write \`true\` without quotes, or just \`merged\``,
    ],
    [
      '"false" == merged',
      `${mismatch('`"false"` is a text', '`merged` is true or false', '==')}; write \`false\` without quotes, or just \`!merged\``,
    ],
    [
      'merged != "true"',
      `${mismatch('`merged` is true or false', '`"true"` is a text', '!=')}; write \`true\` without quotes, or just \`!merged\``,
    ],
    [
      '(size > 5) != "false"',
      `${mismatch('`size > 5` is true or false', '`"false"` is a text', '!=')}; write \`false\` without quotes`,
    ],
    [
      'merged > "true"',
      `${mismatch('`merged` is true or false', '`"true"` is a text', '>')}; write \`true\` without quotes`,
    ],
    ['merged == "yes"', mismatch('`merged` is true or false', '`"yes"` is a text', '==')],
    [
      '5 < size < 10',
      `${mismatch('`5 < size` is true or false', '`10` is a number', '<')}; write \`5 < size && size < 10\``,
    ],
    [
      '"a" <= base < "b"',
      `${mismatch('`"a" <= base` is true or false', '`"b"` is a text', '<')}; write \`"a" <= base && base < "b"\``,
    ],
    ['merged < 10', mismatch('`merged` is true or false', '`10` is a number', '<')],
    ['size == 5 == 6', mismatch('`size == 5` is true or false', '`6` is a number', '==')],
    ['5 < (draft ? 1 : 2) < 3', mismatch('`5 < (draft ? 1 : 2)` is true or false', '`3` is a number', '<')],
    ['created_at > 2026-01-31', '`2026-01-31` is a subtraction; write `date("2026-01-31")`'],
    ['created_at > 2026-12-31', '`2026-12-31` is a subtraction; write `date("2026-12-31")`'],
    [
      'author in (renovate, dependa-bot)',
      '`,` is only allowed in a call or a list; write `["renovate", "dependa-bot"]`',
    ],
    [`author in ( "ada", 'bob')`, `\`,\` is only allowed in a call or a list; write \`["ada", 'bob']\``],
    ['number in (1, -2)', '`,` is only allowed in a call or a list; write `[1, -2]`'],
    ['size >= 1,000', '`,` is only allowed in a call or a list; write `1000`'],
    ['size >= 1,234,567 && merged', '`,` is only allowed in a call or a list; write `1234567`'],
    ['approvals => 2', '`=>` is not part of the rule language; write `>=`'],
    ['approvals =< 2', '`=<` is not part of the rule language; write `<=`'],
    ['approvals <> 2', '`<>` is not part of the rule language; write `!=`'],
    ['any_file(src/**)', '`/**` is not part of the rule language; put a glob in quotes, as in `any_file("src/**")`'],
    ['any_file(**/*.ts)', '`**/` is not part of the rule language; put a glob in quotes, as in `any_file("src/**")`'],
    ['any_file(*.ts)', 'a value is missing between `(` and `*`; put a glob in quotes, as in `any_file("src/**")`'],
    ['any_file("a", *)', 'a value is missing between `,` and `*`; put a glob in quotes, as in `any_file("src/**")`'],
    ['any_file(src/*)', '`/*` is not part of the rule language; put a glob in quotes, as in `any_file("src/**")`'],
    ['labels == []', `${onlyAfterIn}; write \`length(labels) == 0\``],
    ['labels != [ ]', `${onlyAfterIn}; write \`length(labels) > 0\``],
    ['[] == files', `${onlyAfterIn}; write \`length(files) == 0\``],
    ['title == []', `${onlyAfterIn}; write \`length(title) == 0\``],
    ['size == []', onlyAfterIn],
    ['labels == ["bug", "urgent"]', `${onlyAfterIn}; write \`"bug" in labels && "urgent" in labels\``],
    ['labels != ["bug"]', `${onlyAfterIn}; write \`!("bug" in labels)\``],
    ['state == ["open", "draft"]', `${onlyAfterIn}; write \`state in ["open", "draft"]\``],
    ['number != [1]', `${onlyAfterIn}; write \`!(number in [1])\``],
    ['labels == "bug"', `${mismatch('`labels` is a list', '`"bug"` is a text', '==')}; write \`"bug" in labels\``],
    ['"" == labels', `${mismatch('`""` is a text', '`labels` is a list', '==')}; write \`length(labels) == 0\``],
    ['labels > "bug"', mismatch('`labels` is a list', '`"bug"` is a text', '>')],
  ])('the message about %s suggests what was probably meant, if that is clear', (source, message) => {
    expect(problemOf(source)).toBe(message);
  });

  test.each([
    'created_at > date("2026-01-01")',
    'has_label("good-first-issue")',
    '"bug" in labels && "urgent" in labels',
    'length(labels) == 0 || !(number in [1])',
  ])('the suggested expression %s is accepted', source => {
    expect(problemOf(source)).toBe('accepted');
  });
});

describe('an expression', () => {
  test('an expression may have 2,000 characters, however many bytes they take', () => {
    const filled = (count: number, unit: string) => `title == "${unit.repeat(count - 11)}"`;
    expect(problemOf(filled(2000, 'a'))).toBe('accepted');
    expect(problemOf(filled(2000, '\u{1F642}'))).toBe('accepted');
    expect(problemOf(filled(2001, 'a'))).toContain('longer than 2000 characters');
    expect(problemOf(filled(2001, '\u{1F642}'))).toContain('longer than 2000 characters');
  });

  // Chains of 5 or 10 parts, to stay within the limit of depth.
  const nodes = (count: number) => {
    const sum = Array.from({ length: 10 }, () => '1').join('+');
    const sums = Array.from({ length: 10 }, () => `(${sum})`).join('+');
    return `${sums.slice(0, -1)}${'+1'.repeat((count - 199) / 2)})`;
  };

  test('an expression may have 200 parts', () => {
    expect(problemOf(nodes(199), 'number')).toBe('accepted');
    expect(problemOf(`-(${nodes(199)})`, 'number')).toBe('accepted');
    expect(problemOf(nodes(201), 'number')).toContain('more than 200 parts');
  });

  test('an expression may have 32 levels', () => {
    expect(problemOf(`${'!'.repeat(31)}merged`)).toBe('accepted');
    expect(problemOf(`${'!'.repeat(32)}merged`)).toContain('nested deeper than 32 levels');
    expect(problemOf(Array.from({ length: 32 }, () => '1').join('+'), 'number')).toBe('accepted');
    expect(problemOf(Array.from({ length: 33 }, () => '1').join('+'), 'number')).toContain('deeper than 32');
    expect(problemOf(`${'('.repeat(32)}merged${')'.repeat(32)}`)).toBe('accepted');
    expect(problemOf(`${'('.repeat(33)}merged${')'.repeat(33)}`)).toContain('deeper than 32');
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
    expect(problemOf(source)).not.toBe('accepted');
    expect(processorTime(() => problemOf(source), 50)).toBeLessThan(50);
  });
});

describe('the value of an expression', () => {
  const facts = { size: 10, additions: 7, deletions: 3, title: 'fix: it', labels: ['Bug', 'p1'], merged: true };

  test.each<[string, Value]>([
    ['1 + 2 * 3', 7],
    ['(1 + 2) * 3', 9],
    ['10 - 4 - 3', 3],
    ['10 / 4 / 5', 0.5],
    ['-2 * -3', 6],
    ['- - 2', 2],
    ['7 % 4', 3],
    ['-7 % 4', -3],
    ['1e3 + 0.5', 1000.5],
    ['additions + deletions == size', true],
    ['!merged == draft', true],
    ['merged || draft && false', true],
    ['merged ? draft ? 1 : 2 : 3', 2],
    ['merged ? 1 : 2 + 10', 1],
    ['size in [1, 10, 100]', true],
    ['size in [1, -10]', false],
    ['-size in [-10]', true],
    ['"p1" in labels', true],
    ['"bug" in labels', false],
    ['title in ["fix: it"] && merged', true],
    ['\'a"b\' == "a\\"b"', true],
    ['"\\u0041\\n\\t\\\\" == "A\\n\\t\\\\"', true],
    ['"\\u0041" == "u0041"', false],
    ['"a" < "b"', true],
    ['"Z" < "a"', true],
    ['"a" < "ab"', true],
    ['"\uFF5E" < "\u{1F642}"', true],
    ['"\u{1F642}" > "\uFF5E"', true],
    ['"\u{1F642}" <= "\u{1F642}"', true],
    ['size == 10', true],
    ['size == 11', false],
    ['size != 10', false],
    ['size != 11', true],
    ['size < 10', false],
    ['size < 11', true],
    ['size <= 9', false],
    ['size <= 10', true],
    ['size > 10', false],
    ['size > 9', true],
    ['size >= 11', false],
    ['size >= 10', true],
    ['title == "fix: it"', true],
    ['title == "fix: It"', false],
    ['title != "fix: it"', false],
    ['title != "fix: It"', true],
    ['title < "fix: it"', false],
    ['title < "fix: iu"', true],
    ['title <= "fix: is"', false],
    ['title <= "fix: it"', true],
    ['title > "fix: it"', false],
    ['title > "fix: is"', true],
    ['title >= "fix: iu"', false],
    ['title >= "fix: it"', true],
    ['lower(title) == title', true],
    ['lower(title) != title', false],
    ['(merged ? title : milestone) == title', true],
    ['(draft ? title : milestone) == title', false],
    ['merged == true', true],
    ['merged != true', false],
    ['draft == true', false],
    ['draft != merged', true],
    ['merged && draft', false],
    ['merged && !draft', true],
    ['draft || draft', false],
    ['draft || merged', true],
    ['merged && (draft || merged) && !draft', true],
    ['1 / 0 == 1 / 0', true],
    ['1 / 0 > size', true],
    ['1 / 0 - 1 / 0 == 0', false],
    ['0 == -0', true],
    ['1 / -0 < 0', true],
    ['1 / 0 > 0', true],
    ['5 in [1, 2]', false],
    ['"p1" in labels && "p2" in labels', false],
    ['length(labels) + length(title)', 9],
    ['per(size, 3)', 3],
    ['per(-size, 3)', -3],
    ['clamp(size, 20, 5)', 5],
    ['clamp(size, 12, 15)', 12],
    ['date("1970-01-02")', 86_400],
    ['has_label("BUG")', true],
    ['has_label("p")', false],
  ])('the value of %s is %j', (source, expected) => {
    expect(evaluate(source, facts)).toStrictEqual(expected);
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
    for (const source of ['hours_to_merge + 1', '-hours_to_merge', 'min(1, hours_to_merge)', 'length(milestone)']) {
      expect(evaluate(source, absent)).toBeNaN();
    }
    for (const source of ['hours_to_merge * 0', 'size / hours_to_merge', 'round(hours_to_merge)', '0 / 0']) {
      expect(evaluate(source, absent)).toBeNaN();
    }
    for (const source of [
      'contains(milestone, "a")',
      'contains(labels, milestone)',
      'contains("a", milestone)',
      'has_label(milestone)',
      'glob(milestone, "**")',
      'matches(milestone, "")',
      'milestone in ["a"]',
      'milestone in labels',
      'hours_to_merge in [1]',
      'lower(milestone) == lower(milestone)',
    ]) {
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

test.each([
  ['title contains "fix"', 'write `contains(title, "fix")`'],
  ['title includes "fix"', 'write `contains(title, "fix")`'],
  ['title startsWith "fix"', 'write `starts_with(title, "fix")`'],
  ['title like "fix"', 'write `matches(title, "fix")`'],
  ['milestone is null', 'write `!(length(milestone) >= 0)`'],
  ['merged_at IS NOT NULL', 'write `merged_at >= 0`'],
  ['exists(milestone)', 'write `length(milestone) >= 0`'],
  ['is_null(merged_by)', 'write `!(length(merged_by) >= 0)`'],
  ['coalesce(milestone, "none") == "none"', 'write `length(milestone) >= 0 ? milestone : "none"`'],
  ['hours_to_merge == null', 'write `!(hours_to_merge >= 0)`'],
  ['None != milestone', 'write `length(milestone) >= 0`'],
  ['is_bot(author)', 'write `author_is_bot`'],
  ['approved', 'write `approvals > 0`'],
  ['num_commits > 1', 'write `commits`'],
  ['file_count > 1', 'write `changed_files`'],
  ['draft == yes', 'write `true`'],
  ['size > 100k', 'write `100000`'],
  ['size > 1_000_000', 'write `1000000`'],
  ['hours_to_merge < 24h', 'write `24`, as durations are in hours'],
  ['hours_to_merge < 2days', 'write `48`, as durations are in hours'],
  ['contains(title, "a", "b")', 'write `contains(title, "a") || contains(title, "b")`'],
  ['is_weekend(created_at)', 'the weekday in UTC is `(floor(created_at / 86400) + 4) % 7`, 0 for Sunday'],
])('the message about %s says how it is written here', (expression, hint) => {
  expect(problemOf(expression)).toMatch(/^.* (is not|is missing|has \d values).*; /);
  expect(problemOf(expression).endsWith(`; ${hint}`)).toBe(true);
});

test.each([
  ['title and "fix"', '; and, or, not are written'],
  ['title foo "fix"', 'between `title` and `foo`'],
  ['size > 1x0', 'write numbers like 10 or 0.5'],
  ['exists(size > 1)', 'docs/rules.md lists all functions'],
  ['labels == null', 'an absent value compares false'],
  ['title > null', 'an absent value compares false'],
])('the message about %s guesses nothing', (expression, end) => {
  expect(problemOf(expression)).toContain(end);
});
