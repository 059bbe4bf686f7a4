/** What reviews are worth: rules below `reviews:`. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { maxReviewers } from '../../src/pull-request.ts';
import { explainScore } from '../../src/scoring/explain/explain.ts';
import type { Facts, ReviewFacts } from '../../src/scoring/facts.ts';
import { formatRulesFile, parseRulesFile } from '../../src/scoring/file/rules-file.ts';
import { compileRuleset, type Ruleset } from '../../src/scoring/ruleset.ts';
import { anyExpression, anyReviewedFacts, runs } from './generate.ts';
import { quickestMs, within } from './processor-time.ts';
import { entry, factsWith, newPlan, type ReviewScore, reviewRules, reviewWith, rule, rulesetOf } from './support.ts';

const scoresOf = (ruleset: Ruleset, facts: Facts): ReviewScore[] | null =>
  JSON.parse(compileRuleset(ruleset).score(facts).reviewScores ?? 'null');

const reviewed = (...reviews: Partial<ReviewFacts>[]) => factsWith({ given_reviews: reviews.map(reviewWith) });

/** What one review is worth by one entry. */
const worth = (value: string, review: Partial<ReviewFacts>, facts: Partial<Facts> = {}) =>
  scoresOf(reviewRules(rule('R', entry('true', value))), { ...reviewed(review), ...facts })?.[0]?.score;

const problems = (text: string) => parseRulesFile(text).problems.map(({ line, message }) => `${line}: ${message}`);

const inFile = (list: 'rules' | 'reviews', expression: string, value = '1') =>
  `${list === 'rules' ? '' : 'rules: []\n'}${list}:\n- name: R\n  logic:\n  - expression: ${JSON.stringify(expression)}\n    effect: { action: ADD, value: ${JSON.stringify(value)} }\n`;

describe('a review', () => {
  test.each<[condition: string, yes: Partial<ReviewFacts>, no: Partial<ReviewFacts>]>([
    ['reviewer == "ada"', { reviewer: 'ada' }, { reviewer: null }],
    ['known(reviewer)', { reviewer: 'ada' }, { reviewer: null }],
    ['verdict == "approved"', { verdict: 'approved' }, { verdict: 'commented' }],
    ['known(verdict)', { verdict: 'changes_requested' }, { verdict: null }],
    ['review_comments > 2', { review_comments: 3 }, { review_comments: 2 }],
    ['hours_to_review <= 1.5', { hours_to_review: 1.5 }, { hours_to_review: 1.6 }],
    ['reviewer_is_member', { reviewer_is_member: true }, { reviewer_is_member: false }],
    ['reviewer_may_write', { reviewer_may_write: true }, { reviewer_may_write: false }],
    ['was_requested', { was_requested: true }, { was_requested: false }],
    ['reviewer_is_bot', { reviewer_is_bot: true }, { reviewer_is_bot: false }],
  ])('has the fact of %s', (condition, yes, no) => {
    expect([worth(`${condition} ? 1 : 2`, yes), worth(`${condition} ? 1 : 2`, no)]).toEqual([1, 2]);
  });

  test('has all facts of its pull request', () => {
    const facts = { title: 'fix: a', files: ['src/a.ts'], file_changes: [30, 4], merged: true };
    expect(
      worth(
        'merged && starts_with(title, "fix") ? lines("src/**") + review_comments : 0',
        { review_comments: 2 },
        facts,
      ),
    ).toBe(36);
  });

  test('is scored for each reviewer, whom the score names, beside the score of the pull request', () => {
    const { score, breakdown, reviewScores } = compileRuleset({
      ...rulesetOf([rule('Merged', entry('true', '3'))]),
      reviews: [
        rule('Comments', entry('review_comments > 0', 'review_comments')),
        rule('Late', entry('hours_to_review > 24', '1', 'SUBTRACT')),
      ],
    }).score(reviewed({ reviewer: 'ada', member: 'mem_1', review_comments: 2 }, { hours_to_review: 25 }));
    expect([score, JSON.parse(breakdown)]).toMatchObject([3, [{ name: 'Merged' }]]);
    expect(JSON.parse(reviewScores ?? '')).toEqual([
      {
        reviewer: 'ada',
        member: 'mem_1',
        score: 2,
        breakdown: [{ name: 'Comments', action: 'ADD', effect: 2, expression: 'review_comments > 0' }],
      },
      {
        reviewer: null,
        member: null,
        score: -1,
        breakdown: [{ name: 'Late', action: 'SUBTRACT', effect: 1, expression: 'hours_to_review > 24' }],
      },
    ]);
  });

  test.each([
    ['the sign of a zero', '1 / min(0, 0 * (review_comments - 1)) > 0', { review_comments: 2 }, { review_comments: 0 }],
    ['the second value of a call', 'contains("by ada", reviewer)', { reviewer: 'ada' }, { reviewer: 'bob' }],
  ])('is scored apart from one before it that differs only by %s', (_, expression, first, second) => {
    const scores = scoresOf(reviewRules(rule('R', entry(expression, '1'))), reviewed(first, second));
    expect(scores?.map(({ score }) => score)).toEqual([1, 0]);
  });

  test.each([
    ['no rules are for them', rulesetOf([rule('R', entry('true', '1'))]), reviewed({})],
    ['their rules are disabled', reviewRules({ ...rule('R', entry('true', '1')), is_enabled: false }), reviewed({})],
    ['nobody reviewed the pull request', reviewRules(rule('R', entry('true', '1'))), reviewed()],
    ['it is not known who did', reviewRules(rule('R', entry('true', '1'))), factsWith({ given_reviews: null })],
  ])('has no score if %s', (_, ruleset, facts) => {
    expect(scoresOf(ruleset, facts)).toBeNull();
    expect(explainScore(ruleset, facts).reviews).toEqual([]);
  });

  test('by a bot counts for the entries that read `reviewer_is_bot`, also through a definition, and for no others', () => {
    const bot = { reviewer: 'renovate', reviewer_is_bot: true };
    const plain = rule('Plain', entry('true', '1'));
    const decided = { ...rule('Decided', entry('true', '10')), when: 'for_bots' };
    const definitions = [{ name: 'for_bots', expression: 'reviewer_is_bot || merged' }];
    const both = { ...reviewRules(plain, decided), definitions };
    expect(scoresOf(both, reviewed(bot, { reviewer: 'ada' }))).toMatchObject([
      { reviewer: 'renovate', score: 10 },
      { reviewer: 'ada', score: 1 },
    ]);
    expect(scoresOf(reviewRules(plain), reviewed(bot, { reviewer: 'ada' }))).toMatchObject([
      { reviewer: 'ada', score: 1 },
    ]);
    const [explained] = explainScore(both, reviewed(bot)).reviews;
    expect(explained?.rules[0]?.entries[0]).toMatchObject({
      outcome: 'condition_false',
      reason: 'it does not read `reviewer_is_bot`, so bots get no points',
    });
  });

  test('has a score that is JSON, whatever its reviewer and rules are called', () => {
    const text = '"]},{ \\ \u2028 </script> $1 `$& 🙂 \u0007';
    const expression = `reviewer == ${JSON.stringify('"]},{ `$&')} || merged`;
    const ruleset = reviewRules(rule(text, entry(expression, '1'), entry(expression, 'size + 1')));
    const facts = { ...reviewed({ reviewer: text, member: text }), merged: true };
    const breakdown = [1, 2].map(() => expect.objectContaining({ name: text, expression }));
    expect(scoresOf(ruleset, facts)).toEqual([{ reviewer: text, member: text, score: 2, breakdown }]);
  });

  test('has the score that its pull request would have with it alone', () => {
    const conditions = fc.array(anyExpression.boolean, { minLength: 10, maxLength: 10 });
    fc.assert(
      fc.property(conditions, anyReviewedFacts, (expressions, facts) => {
        const ruleset = reviewRules(...expressions.map((each, index) => rule(`R${index}`, entry(each, '1'))));
        const { score } = compileRuleset(ruleset);
        const alone = (facts.given_reviews ?? []).flatMap(review => {
          return scoresOf(ruleset, { ...facts, given_reviews: [review] }) ?? [];
        });
        expect(JSON.parse(score(facts).reviewScores ?? '[]')).toEqual(alone);
      }),
      runs(60),
    );
  });

  test.each<[what: string, (ruleset: Ruleset) => (facts: Facts) => unknown]>([
    ['a score', ruleset => compileRuleset(ruleset).score],
    ['a plan', ruleset => newPlan(rulesetOf([]), ruleset, 'reviews').add.bind(undefined, 'id', 'author')],
  ])('shares the reading of files and texts with the others of its pull request, in %s', (_, compile) => {
    const slow = ['lines("src/**/*.{ts,tsx}") > 0', 'matches(body, "x.{9}(q|#7)")', 'contains(lower(body), "needle")'];
    const read = compile(reviewRules(rule('R', ...slow.map(expression => entry(expression, 'review_comments')))));
    const files = Array.from({ length: 500 }, (_, index) => `src/folder/file-${index}.ts`);
    let number = 0;
    const readAnother = (count: number) => {
      const given_reviews = Array.from({ length: count }, () => reviewWith({ review_comments: 1 }));
      const body = `${number++} ${'The x fix #7 '.repeat(5_000)}`;
      return read(factsWith({ body, files: [...files], file_changes: files.flatMap(() => [1, 1]), given_reviews }));
    };
    within(5 * quickestMs(() => readAnother(1)), () => readAnother(maxReviewers));
  });
});

const refusal = (name: string) => `\`${name}\` is a fact of reviews; rules that read it stand below \`reviews:\``;

describe('rules of reviews', () => {
  test.each([
    ['verdict == "approved"', 'verdict'],
    ['size > review_comments', 'review_comments'],
    ['known(reviewer)', 'reviewer'],
  ])('alone read its facts, not `rules`, as in %s', (expression, name) => {
    expect(problems(inFile('rules', expression))).toEqual([`4: Rule "R", entry 1, expression: ${refusal(name)}`]);
    expect(problems(inFile('reviews', expression))).toEqual([]);
  });

  test('alone read them also in values, in `when` and by a definition', () => {
    expect(problems(inFile('rules', 'true', 'review_comments'))).toEqual([
      `5: Rule "R", entry 1, value: ${refusal('review_comments')}`,
    ]);
    const defined = `define:\n  quick: hours_to_review < 2\n  twice: quick && merged\n${inFile('rules', 'twice')}`;
    expect(problems(defined)).toEqual([`7: Rule "R", entry 1, expression: ${refusal('hours_to_review')}`]);
    const when = inFile('rules', 'true').replace('  logic', '  when: was_requested\n  logic');
    expect(problems(when)).toEqual([`3: Rule "R", when: ${refusal('was_requested')}`]);
  });

  test('that are stored below `rules` by mistake are reported, and the others count', () => {
    const { score, problems } = compileRuleset({
      ...rulesetOf([rule('Old', entry('was_requested', '1')), rule('Good', entry('true', '2'))]),
      reviews: [rule('Wrong', entry('weather', '1')), rule('Fine', entry('true', '4'))],
    });
    expect(problems.map(({ rule }) => rule)).toEqual(['Old', 'Wrong']);
    const { score: sum, reviewScores } = score(reviewed({}));
    expect([sum, JSON.parse(reviewScores ?? '')]).toMatchObject([2, [{ score: 4 }]]);
  });

  test('have names that no rule of the file has', () => {
    const twice = inFile('rules', 'true') + inFile('reviews', 'true').replace('rules: []\n', '');
    expect(problems(twice)).toEqual(['7: Rule "R" is in the file twice; give each rule its own name']);
  });

  test('are 200 at most, as those of pull requests are', () => {
    const one = (_: unknown, index: number) =>
      `- { name: R${index}, logic: [{ expression: draft, effect: { action: ADD, value: "1" } }] }\n`;
    const found = problems(`rules: []\nreviews:\n${Array.from({ length: 201 }, one).join('')}`);
    expect(found).toContain('203: `reviews` has 201 rules, more than 200');
  });

  test('have 8 KB in the breakdown of one review at most', () => {
    const long = (length: number) => rule('Long', entry(`title != ${JSON.stringify('x'.repeat(length))}`, '1'));
    const five = (length: number) =>
      reviewRules(...[1, 2, 3, 4, 5].map(index => ({ ...long(length), name: `R${index}` })));
    expect(compileRuleset(five(1_500)).problems).toEqual([]);
    const [problem, ...others] = compileRuleset(five(1_700)).problems;
    expect(others).toEqual([]);
    expect(problem?.message).toContain('the breakdown of one review could have 9 KB, more than 8 KB');
    expect(scoresOf(five(1_700), reviewed({}))).toBeNull();
    expect(problems(formatRulesFile(five(1_700)))).toEqual([expect.stringContaining('more than 8 KB')]);
    expect(compileRuleset(rulesetOf(five(1_700).reviews)).problems).toEqual([]);
  });
});
