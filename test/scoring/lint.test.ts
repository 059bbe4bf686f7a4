import { expect, test } from 'vitest';
import { parseRulesFile } from '../../src/scoring/file/rules-file.ts';

/** `line: message` of each warning. */
function warnings(text: string): string[] {
  const file = parseRulesFile(text);
  expect(file.problems).toEqual([]);
  return file.warnings.map(({ line, message }) => `${line}: ${message}`);
}

const yaml = (text: string) => `'${text.replaceAll("'", "''")}'`;
const entry = (expression: string, value = '1', action = 'ADD') =>
  `    - { expression: ${yaml(expression)}, effect: { action: ${action}, value: ${yaml(value)} } }\n`;
const rule = (...entries: string[]) => `rules:\n- name: R\n  logic:\n${entries.join('')}`;

const withoutPlace = (place: string, file: string) => warnings(file).map(message => message.replace(place, ''));
/** Of one condition. The second entry keeps the rule alive. */
const ofCondition = (expression: string) =>
  withoutPlace('4: Rule "R", entry 1, expression: ', rule(entry(expression), entry('true')));
/** Of one condition of a rule for reviews. */
const ofReview = (expression: string) => {
  const reviews = rule(entry(expression), entry('true')).replace('rules', 'reviews');
  return withoutPlace('5: Rule "R", entry 1, expression: ', `rules: []\n${reviews}`);
};
const ofValue = (value: string, action = 'ADD') =>
  withoutPlace('4: Rule "R", entry 1, value: ', rule(entry('true', value, action), entry('true')));

test.each([
  ['50 > size && merged && 100 < size', 'size'],
  ['size > 5 && size < 6', 'size'],
  ['size == 5 && size != 5', 'size'],
  ['commits in [1, 2] && commits > 2', 'commits'],
  ['comments < 0', 'comments'],
  ['comments == 1.5', 'comments'],
  ['!(size > 5 || size <= 5)', 'size'],
  ['merged && !merged', 'merged'],
  ['draft == true && draft != true', 'draft'],
  ['state == "open" && state == "merged"', 'state'],
  ['state == "open" && merged', 'state'],
  ['state in ["open", "draft"] && state > "open"', 'state'],
  ['base == "main" && base != "main"', 'base'],
  ['base == "main" && base in ["dev", "next"]', 'base'],
  ['hours_to_merge > 2 * 24 && hours_to_merge <= 48', 'hours_to_merge'],
  ['hours_to_merge > 48 && hours_to_merge != hours_to_merge', 'hours_to_merge'],
  ['created_at > date("2026-02-01") && created_at < date("2026-01-01")', 'created_at'],
  ['size > 100 ? size < 50 : false', 'size'],
  ['milestone == "1" && milestone == "2"', 'milestone'],
])('%s can never be true', (expression, fact) => {
  const isConstant = new RegExp(`^\`.*\` can never be true, whatever \`${fact}\` is$`);
  expect(ofCondition(expression)).toEqual([isConstant]);
});

test('a condition without facts gets a warning if it can never be true', () => {
  expect(ofCondition('1 > 2')).toEqual(['`1 > 2` can never be true']);
  expect(ofCondition('lower("A") == "A"')).toEqual(['`lower("A") == "A"` can never be true']);
  expect(ofCondition('0 / 0 != 1')).toEqual(['`0 / 0 != 1` can never be true']);
  expect(ofCondition('false && merged')).toEqual(['`false && merged` can never be true']);
});

test('a part of a condition or value that can never be true gets a warning, the largest one', () => {
  expect(ofCondition('merged || (size > 100 && size < 50 && size > 20)')).toEqual([
    '`size > 100 && size < 50 && size > 20` can never be true, whatever `size` is',
  ]);
  expect(ofValue('(size < 0 ? 5 : 3) + commits')).toEqual(['`size < 0` can never be true, whatever `size` is']);
});

test('a condition that can never be true gets one warning in a definition, or if it uses one', () => {
  const text = `define:\n  limit: 50\n  never: size > 100 && size < limit\n${rule(entry('merged || never'), entry('draft || never'), entry('size > limit && size < 40'))}`;
  expect(warnings(text)).toEqual([
    '3: Definition "never": `size > 100 && size < limit` can never be true, whatever `size` is',
    '9: Rule "R", entry 3, expression: `size > limit && size < 40` can never be true, whatever `size` is',
  ]);
});

test('a condition that the `when` of its rule rules out gets a warning', () => {
  const text = `rules:\n- name: R\n  when: size > 100\n  logic:\n${entry('size < 50 && merged')}${entry('size > 200')}`;
  expect(warnings(text)).toEqual([
    '5: Rule "R", entry 1, expression: `size < 50 && merged` can never be true together with the rule\'s `when`',
  ]);
});

test.each([
  ['state != "open" || state != "closed"', 'state'],
  ['state in ["open", "draft", "closed"] || merged', 'state'],
  ['author != "ada" || author != "bert"', 'author'],
  ['size >= 0', 'size'],
  ['known(size)', 'size'],
  ['size > 5 || size < 10', 'size'],
  ['merged || !merged', 'merged'],
  ['!(hours_to_merge > 48 && hours_to_merge < 24)', 'hours_to_merge'],
])('%s is always true', (expression, fact) => {
  const isConstant = new RegExp(`^\`.*\` (is always|can never be) true, whatever \`${fact}\` is$`);
  expect(ofCondition(expression)).toEqual([isConstant]);
});

test.each([
  'true',
  'always',
  'merged_at > 0',
  'known(milestone)',
  'hours_to_merge >= 0 || hours_to_merge < 0',
  'milestone == milestone',
  'milestone != "1" || milestone != "2"',
])('%s gets no warning: it is meant so or can be absent', expression => {
  expect(warnings(`define:\n  always: true\n${rule(entry(expression), entry('always'))}`)).toEqual([]);
});

test.each([
  'size > 50 && size < 100',
  'size >= 5 && size <= 5',
  'hours_to_merge > 5 && hours_to_merge < 6',
  'size > 5.5 && size < 6.5',
  'title > "a" && title < "b"',
  'base >= "release/2" && base < "release/3"',
  'size > 100 && changed_files < 50',
  'size == additions && size != deletions',
  'author == merged_by || author != merged_by',
  '(merged && size > 5) || (!merged && size < 3)',
  'state != "open" && state != "closed"',
  'draft && merged',
  '"bug" in labels && !("bug" in labels)',
  'created_at > date("2026-01-01") && created_at < date("2026-02-01")',
  'matches(title, "[bot]")',
  'glob(author, "*-bot")',
  'contains(title, "[bot]")',
  'glob(base, "release/*") && any_label("area/*") && any_file("src/**")',
  'has_label("good first issue")',
  'contains(title, "*")',
  'author_association in ["OWNER", "MEMBER"]',
  'starts_with(author_association, "M")',
  'reviews > approvals',
  'approvals >= reviews',
  'created_at > date("2026-01-01")',
  'merged_at - created_at > 100000',
  'merged_at < date("9999-12-31")',
  'created_at * 1000 > 1767225600000',
  'milestone != ""',
  'body == ""',
  'repository == "acme/web"',
  'glob(repository, "**/lab-*")',
  'contains(repository, "lab")',
  'title == "a * b"',
  'contains(author, "@")',
  'starts_with(title, "@ada")',
  'lower(author) == "ada"',
  'lower(title) == "wip" || title == "WIP"',
  'any_file("**/.*", "**/*.test.*", "a$b/**")',
  'matches(head, "/fix/")',
  'matches(title, "^fix/[a-z]*")',
])('%s gets no warning', expression => {
  expect(ofCondition(expression)).toEqual([]);
});

test('a condition on a list that a definition names is searched for contradictions', () => {
  const found = warnings(
    `define:\n  core: [ada, bob]\n${rule(entry('author in core && author == "eve"'), entry('author in core'))}`,
  );
  expect(found).toEqual([
    expect.stringContaining('`author in core && author == "eve"` can never be true, whatever `author` is'),
  ]);
});

test('definitions that are switches get no warning, whatever they are set to', () => {
  const text = `define:\n  strict: false\n  bonus: 5\nrules:\n- name: R\n  when: strict && bonus > 3\n  logic:\n${entry('merged', 'bonus')}${entry('strict || bonus < 3 || draft')}`;
  expect(warnings(text)).toEqual([]);
});

test.each([
  '0',
  '-0.4',
  '1 / 3',
  'merged ? 0.2 : 0.4',
  'clamp(size, 0, 0.4)',
  'min(0, size)',
  'per(3, 20)',
  'size * 0',
  'max(0, min(0, -comments))',
])('the value %s always rounds to 0', value => {
  const expected = [`\`${value}\` always rounds to 0, so it adds nothing`];
  expect(ofValue(value)).toEqual(expected);
  expect(ofValue(value, 'SUBTRACT')).toEqual(expected);
});

test.each([
  '-5',
  '-size',
  'min(0, 5 - comments)',
  '-(size / 20)',
  '-(commits + 3) * 2',
  'merged ? -5 : 0',
  '0 - per(size, 20)',
])('SUBTRACT with the value %s would add to the score', value => {
  expect(ofValue(value, 'SUBTRACT')).toEqual([
    `\`${value}\` is never above 0, so SUBTRACT adds to the score; write ADD, or change its sign`,
  ]);
  expect(ofValue(value)).toEqual([]);
});

test.each([
  '0.5',
  'size / 1000',
  '5 - comments',
  'merged ? 0 : 1',
  'hours_to_merge',
  '-hours_to_merge',
  'clamp(5 - commits, -3, 3)',
  '10 / commits',
  '-3 % commits',
  'log(size)',
  'abs(0 - size)',
  'sqrt(size - 10)',
  'per(size, 20) - 1',
  'length(title)',
  'round(size / 100)',
  '0 / 0',
  '-date("1960-01-01")',
])('SUBTRACT with the value %s gets no warning', value => {
  expect(ofValue(value, 'SUBTRACT')).toEqual([]);
});

test.each([
  'glob(author, "*[bot]")',
  'glob(lower(merged_by), "mergify[bot]")',
  'matches(author, "[bot]$")',
  'matches(author, "\\\\[bot\\\\]$")',
  'author == "dependabot[bot]"',
  'merged_by in ["ada", "mergify[bot]"]',
  '"renovate[bot]" in assignees',
  'author == robot',
])('%s names an app with [bot], which facts do not', expression => {
  expect(
    warnings(`define:\n  robot: '"acme[bot]"'\n${rule(entry(expression), entry('author != robot || merged'))}`)[0],
  ).toMatch(
    /^6: Rule "R", entry 1, expression: `.*`: logins of apps have no `\[bot\]` here, and in a glob it is one of/,
  );
});

test.each([
  ['contains(labels, "area/*")', 'any_label("area/*")'],
  ['"area/*" in labels', 'any_label("area/*")'],
  ['contains(files, "src/**")', 'any_file("src/**")'],
])('%s looks for a glob as a name', (expression, instead) => {
  expect(ofCondition(expression)).toEqual([
    `\`${expression}\` looks for exactly this name; write \`${instead}\` for a glob`,
  ]);
});

test.each([
  ['author_association == "COLLABORATOR"', 'COLLABORATOR'],
  ['"NONE" != author_association', 'NONE'],
  ['author_association in ["OWNER", "MEMBER", "CONTRIBUTOR"]', 'CONTRIBUTOR'],
  ['(author_association == "FIRST_TIMER") == draft', 'FIRST_TIMER'],
])('%s names an association that members never have', (expression, text) => {
  expect(ofCondition(expression)).toEqual([
    `members never have the \`author_association\` \`"${text}"\`; theirs is \`"MEMBER"\` or \`"OWNER"\``,
  ]);
});

test.each([
  ['size < additions', 'can never be true: `additions` is never more than `size`'],
  ['created_at > merged_at', 'can never be true: `created_at` is never later than `merged_at`'],
  ['milestone == ""', 'can never be true: `milestone` is absent if it has no milestone; write `!known(milestone)`'],
  [
    'milestone in ["", "v1"]',
    'the text is never empty: `milestone` is absent if it has no milestone; write `!known(milestone)`',
  ],
  ['author in ["ada", ""]', '`author` is never empty'],
  ['title != ""', '`title` is never empty'],
  ['glob(repository, "lab-*")', '`repository` is `owner/name`, and `"lab-*"` has no `/`; put the owner before it'],
  ['repository == "acme/lab-*"', 'looks for exactly this name; write `glob(repository, "acme/lab-*")` for a glob'],
  ['base in ["main", "release/*"]', 'looks for exactly this name; write `glob(base, "release/*")` for a glob'],
  ['starts_with(head, "refs/heads/x")', 'branches have no `refs/heads/` here; write `"x"`'],
  ['author == "@ada"', 'logins have no `@` here; leave it out'],
  ['"@ada" in assignees', 'logins have no `@` here; leave it out'],
  [
    'author in ["ada", "Ada Lovelace"]',
    '`"Ada Lovelace"` has a space, which no login has; write the login, not the name',
  ],
  ['contains(lower(title), "WIP")', '`lower` leaves no capital letters; write `"wip"`'],
  ['any_label("/bug/")', '`"/bug/"` is a pattern for `matches`; a glob is written like `"src/**"`'],
  [
    'lines_except("docs/**", "(a|b).ts") > 5',
    '`"(a|b).ts"` is a pattern for `matches`; a glob is written like `"src/**"`',
  ],
  ['matches(title, "/fix/i")', 'the slashes around a pattern are part of it here; write `"(?i)fix"`'],
  ['matches(base, "release/*")', 'in a pattern, `/*` is any number of slashes; write `glob(base, "release/*")`'],
])('%s has a text or number of another form', (expression, message) => {
  const [found = '', ...others] = ofCondition(expression);
  expect(others).toEqual([]);
  expect(found.endsWith(message)).toBe(true);
  expect(found).toMatch(/^`.*`(: | can | looks )/);
});

test.each(['default(milestone, "") == ""', 'default(merged_by, "") in ["", "ada"]'])(
  '%s gets no warning, because an absent text is empty there',
  expression => expect(ofCondition(expression)).toEqual([]),
);

test.each(['99999999999', '-1e10', '2147483648 + size'])('the value %s is outside 32 bits', value => {
  expect(ofValue(value)).toEqual([`\`${value}\` is always outside 32 bits, so it adds nothing`]);
  expect(ofValue('2147483647')).toEqual([]);
});

test('what is wrong with a definition gets its warning there, and not where the definition is used', () => {
  const text = `define:\n  labelled: has_label("area/*")\n${rule(entry('labelled && merged'), entry('!labelled'))}`;
  expect(warnings(text)).toEqual([
    '2: Definition "labelled": `has_label("area/*")` looks for exactly this name; write `any_label("area/*")` for a glob',
  ]);
});

test('a rule gets a warning if its condition can never be true', () => {
  const text = `rules:\n- name: R\n  when: size > 100 && size < 50\n  logic:\n${entry('merged')}${entry('draft')}`;
  expect(warnings(text)).toEqual([
    '3: Rule "R", when: `size > 100 && size < 50` can never be true, whatever `size` is',
    '5: Rule "R", logic: none of its entries can ever count; correct or remove the rule',
  ]);
});

test('a rule gets a warning if none of its entries can count', () => {
  expect(warnings(rule(entry('size < 0'), entry('merged', '0'), entry('false')))).toEqual([
    '4: Rule "R", entry 1, expression: `size < 0` can never be true, whatever `size` is',
    '4: Rule "R", logic: none of its entries can ever count; correct or remove the rule',
    '5: Rule "R", entry 2, value: `0` always rounds to 0, so it adds nothing',
  ]);
});

test('a disabled rule gets no warning', () => {
  expect(warnings(`rules:\n- name: R\n  enabled: false\n  logic:\n${entry('merged')}`)).toEqual([]);
});

test('a definition that no rule uses gets a warning, also if another such definition uses it', () => {
  const text = `define:\n  a: b > 5\n  b: size\n  c: size * 2\n  d: c + 1\n${rule(entry('merged', 'd'))}`;
  expect(warnings(text)).toEqual([
    '2: Definition "a": no rule uses it; remove it',
    '3: Definition "b": no rule uses it; remove it',
  ]);
  expect(warnings(`define:\n  a: size\nrules:\n- name: R\n  enabled: false\n  logic:\n${entry('a > 5')}`)).toEqual([]);
});

test('a warning names the rule, the entry and the part', () => {
  const { warnings: found } = parseRulesFile(`define:\n  a: size\n${rule(entry('merged', '-5', 'SUBTRACT'))}`);
  expect(found).toEqual([
    { line: 2, rule: null, entry: null, part: 'define', message: expect.any(String) },
    { line: 6, rule: 'R', entry: 1, part: 'value', message: expect.any(String) },
  ]);
});

test('a file with a problem has no warnings', () => {
  expect(parseRulesFile(rule(entry('size < 0'), entry('sice > 5')))).toMatchObject({
    problems: [{ line: 5 }],
    warnings: [],
  });
});

test.each([
  ['review_comments < 0', '`review_comments < 0` can never be true, whatever `review_comments` is'],
  ['hours_to_review < 0', '`hours_to_review < 0` can never be true, whatever `hours_to_review` is'],
  ['verdict > "d"', '`verdict > "d"` can never be true, whatever `verdict` is'],
  ['reviewer == "@ada"', '`reviewer == "@ada"`: logins have no `@` here; leave it out'],
  ['reviewer == author', '`reviewer == author` can never be true: authors do not review their own pull requests'],
  [
    'reviewer == ""',
    '`reviewer == ""` can never be true: `reviewer` is absent if the reviewer is not a member; write `!known(reviewer)`',
  ],
])('a rule for reviews gets a warning for %s', (expression, message) => {
  expect(ofReview(expression)).toEqual([message]);
});

test.each([
  'hours_to_review <= 0',
  'hours_to_review > 0 && hours_to_review < 0.5',
  'reviewer != author && !reviewer_is_bot && known(verdict)',
  'reviewer in ["ada"] && was_requested && review_comments == 0',
])('a rule for reviews gets no warning for %s', expression => {
  expect(ofReview(expression)).toEqual([]);
});

test('a definition that only a rule for reviews uses is used', () => {
  const text = rule(entry('quick'), entry('true')).replace('rules', 'reviews');
  expect(warnings(`define: { quick: hours_to_review < 2 }\nrules: []\n${text}`)).toEqual([]);
});
