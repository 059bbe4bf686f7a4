import { createHash } from 'node:crypto';
import fc from 'fast-check';
import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import { distributionChart } from '../../../src/commands/plan/charts.ts';
import { planReport } from '../../../src/commands/plan/page.ts';
import { planMarkdown, planText } from '../../../src/commands/plan/text.ts';
import { formatId, newId } from '../../../src/ids.ts';
import { type PlanDocument, planDocument } from '../../../src/reports/plan.ts';
import { compareRules } from '../../../src/scoring/plan/rule-changes.ts';
import {
  entry,
  factsWith,
  newPlan,
  rule as newRule,
  reviewRules,
  reviewWith,
  rulesetOf,
} from '../../scoring/support.ts';
import { anyCharacter } from '../../support/any-character.ts';

interface Texts {
  title: string;
  url: string;
  name: string;
  rule: string;
}

const usual: Texts = { title: 'A fix', url: 'https://github.com/acme/web/pull/1', name: 'Ada', rule: 'Size' };

/** A plan of `count` pull requests by `people` members that uses these texts wherever it can. */
function planOf(count: number, people = 3, { title, url, name, rule }: Texts = usual): PlanDocument {
  const ruleOf = (ruleName: string, ...logic: Parameters<typeof entry>) => newRule(ruleName, entry(...logic));
  const quoted = JSON.stringify(rule.replace(/\p{Cc}/gu, ''));
  const before = [ruleOf(rule, 'size > 10', 'size'), ruleOf('Gone', `title == ${quoted}`, '1')];
  const after = [ruleOf(rule, 'size > 10', '5 - number'), ruleOf(`${rule}!`, `title != ${quoted}`, '2')];
  const [reviewsBefore, reviewsAfter] = [
    reviewRules(ruleOf(rule, 'review_comments > 1', '2')),
    reviewRules(ruleOf(rule, 'review_comments > 1', '3'), ruleOf(`${rule}!`, `reviewer != ${quoted}`, '1')),
  ];
  const plan = newPlan(rulesetOf(before), rulesetOf(after));
  const reviewPlan = newPlan(reviewsBefore, reviewsAfter, 'reviews');
  const pullRequests = Array.from({ length: count }, () => newId());
  const members = Array.from({ length: people }, () => newId());
  for (const [index, id] of pullRequests.entries()) {
    const member = members[index % people] ?? '';
    const review = reviewWith({ member: formatId('mem', member), reviewer: name, review_comments: index % 4 });
    const facts = factsWith({ number: index, size: index * 3, title, given_reviews: [review] });
    plan.add(id, member, facts);
    reviewPlan.add(id, '', facts);
  }
  const compared = {
    version: 3,
    outdated: 1,
    changes: compareRules(rulesetOf(before), rulesetOf(after)),
    result: plan.result(),
    audits: null,
    reviews: {
      changes: compareRules(reviewsBefore, reviewsAfter, 'reviews'),
      result: reviewPlan.result(),
      audits: null,
    },
  };
  return planDocument(compared, {
    organisation: name,
    file: name,
    pullRequests: new Map(pullRequests.map((id, number) => [id, { id, repository: name, number, title, url }])),
    members: new Map(members.map(id => [formatId('mem', id), { login: name, name: `${name} ` }])),
  });
}

const now = new Date('2026-01-31T12:00:00Z');

const tags = new Set(
  `a b bdi body circle code dd details div dl dt footer g h1 h2 h3 head header html li line main meta ol p path rect
  section span strong style summary svg table tbody td text th thead time title tr ul`.split(/\s+/),
);
const attributes = new Set(
  `aria-hidden aria-label aria-labelledby charset class colspan content cx cy d datetime height href http-equiv id lang
  name points preserveAspectRatio r rel role rx scope tabindex text-anchor viewBox width x x1 x2 y y1 y2`.split(/\s+/),
);

/** Parses a page; fails on unknown tags and attributes. */
function readPage(page: string): { links: string[]; text: string } {
  const links: string[] = [];
  const used = { tags: new Set<string>(), attributes: new Set<string>() };
  const styleless = page.replace(/<style>[\s\S]*?<\/style>/, '');
  const text = styleless.replace(
    /<!doctype html>|<(\/?)([a-z0-9]+)((?:\s[a-z0-9-]+="[^"<>]*")*)\s*\/?>/gi,
    (all, _end, tag, given) => {
      if (all === '<!doctype html>') return '';
      used.tags.add(tag);
      for (const [, name, value] of String(given).matchAll(/\s([a-z0-9-]+)="([^"]*)"/gi)) {
        used.attributes.add(name ?? '');
        if (name === 'href') links.push(value ?? '');
      }
      return '\n';
    },
  );
  expect([...used.tags].filter(tag => !tags.has(tag))).toEqual([]);
  expect([...used.attributes].filter(name => !attributes.has(name))).toEqual([]);
  // No tag is left.
  expect(text).not.toMatch(/[<>]/);
  return { links, text };
}

const hostile = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "' onmouseover='alert(1)",
  '</title></style></svg><h1>',
  '&lt;b&gt; &amp;amp; &#60;i&#62;',
  '--> ]]> <!--',
  '\u202etxt.exe\u0000\u001b[31m',
  '{{7*7}} `',
];

describe('the page', () => {
  test('has no markup or links from hostile texts', () => {
    const text = fc.oneof(fc.constantFrom(...hostile), fc.string({ unit: anyCharacter, maxLength: 30 }));
    fc.assert(
      fc.property(fc.record({ title: text, url: text, name: text, rule: text }), texts => {
        const { links } = readPage(planReport(planOf(4, 2, texts), now));
        for (const link of links) expect(link).toMatch(/^https?:\/\//);
      }),
      { numRuns: 30 },
    );
  });

  test('shows hostile titles unchanged', () => {
    for (const title of hostile.slice(0, 6)) {
      const { text } = readPage(planReport(planOf(4, 2, { ...usual, title }), now));
      const unescaped = text
        .replaceAll('&lt;', '<')
        .replaceAll('&gt;', '>')
        .replaceAll('&quot;', '"')
        .replaceAll('&#39;', "'")
        .replaceAll('&amp;', '&');
      expect(unescaped).toContain(title);
    }
  });

  test('has links to web pages only', () => {
    const linksTo = (url: string) => readPage(planReport(planOf(4, 2, { ...usual, url }), now)).links;
    expect(linksTo('https://github.com/acme/web/pull/1?a=1&b=2')).toContain(
      'https://github.com/acme/web/pull/1?a=1&amp;b=2',
    );
    for (const url of ['javascript:alert(1)', ' JavaScript:alert(1)', 'data:text/html,x', '//evil.example', '']) {
      expect(linksTo(url)).toEqual([]);
    }
  });

  test('has a policy that allows its one style and nothing else', () => {
    const page = planReport(planOf(4), now);
    const styles = [...page.matchAll(/<style>([\s\S]*?)<\/style>/g)].map(([, style]) => style ?? '');
    expect(styles).toHaveLength(1);
    const hash = createHash('sha256')
      .update(styles[0] ?? '')
      .digest('base64');
    expect(page).toContain(
      `content="default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'"`.replaceAll(
        "'",
        '&#39;',
      ),
    );
    expect(styles[0]).not.toMatch(/url\(|@import|expression\(/);
    expect(page).not.toMatch(/\sstyle=|<script|<link|<img|\ssrc=/);
  });

  test.each([
    [0, 1, 'There are no pull requests yet'],
    [1, 1, '1 of 1 pull requests change their score'],
    [40, 1, '40 of 40 pull requests change their score'],
    [3_000, 700, '3,000 of 3,000 pull requests change their score'],
  ])('for %i pull requests by %i members is complete', (count, people, headline) => {
    const page = planReport(planOf(count, people), now);
    readPage(page);
    // On a phone the bars go, and no column of numbers is wider than the screen.
    const narrow = /@media \(max-width: 40rem\) \{([\s\S]*?)\n\}/.exec(page)?.[1];
    expect(narrow).toMatch(
      /\.bar, \.wide \{ display: none; \}\n *\.scroll table, \.scroll tbody th \{ min-width: 0; \}/,
    );
    expect(page).not.toMatch(/<td><svg/);
    expect(page).toContain(headline);
    expect(page).not.toMatch(/NaN|undefined|Infinity|null/);
    expect(page.length).toBeLessThan(150_000);
  });
});

describe('the audit', () => {
  const figures = (share: number, gain: number) => ({
    share,
    median_gain: gain,
    largest_gain: 9,
    rules: share > 0 ? [{ name: 'Size <b>', share: 1 }] : [],
  });
  const audited = (ways: NonNullable<PlanDocument['audit']>['ways']): PlanDocument => ({
    ...planOf(4),
    audit: { pull_requests: 4, stored_pull_requests: 4, ways },
  });

  test('the page of a plan has the ways to game the rules, with all figures that the text has', () => {
    const plan = audited([
      { way: 'split', status: 'new', before: figures(0, 0), after: figures(0.5, 2.5) },
      { way: 'title', status: 'gone', before: figures(0.255, -1), after: figures(0, 0) },
      { way: 'label', status: 'none', before: figures(0, 0), after: figures(0, 0) },
    ]);
    const section = planReport(plan, now).split('id="audit-heading"')[1] ?? '';
    const { text } = readPage(section.slice(section.indexOf('>') + 1, section.indexOf('</section>')));
    const lines = text.split('\n').filter(line => line.trim() !== '');
    expect(lines.slice(lines.indexOf('split into two of half the size'))).toEqual([
      ...['split into two of half the size', '+ new', '0.0%', '50.0%', '+2.50', 'Size &lt;b&gt;'],
      ...['another prefix of the title', '- gone', '25.5%', '−1.00', '0.0%'],
    ]);
    for (const figure of ['50.0%', '+2.50', '25.5%', '−1.00']) expect(planText(plan, 120, 'apply')).toContain(figure);
  });

  test('a plan says if it found no way to game the rules', () => {
    const plan = audited([{ way: 'split', status: 'none', before: figures(0, 0), after: figures(0, 0) }]);
    for (const shown of [planReport(plan, now), planText(plan, 80, 'apply'), planMarkdown(plan, 'apply')]) {
      expect(shown).toContain('Found no way to game these rules.');
    }
  });
});

describe('the text', () => {
  test.each([60, 80, 120])('fits into %i columns, and controls no terminal', columns => {
    const texts = {
      ...usual,
      title: `\u001b[31mred\u001b]0;owned\u0007 \u202etxt.exe\r\n\u009b2J ${'漢字'.repeat(40)} 🙂`,
      name: 'A long name '.repeat(9),
      rule: 'Rule '.repeat(30),
    };
    const lines = planText(planOf(300, 20, { ...texts, url: 'https://a.example' }), columns, 'apply').split('\n');
    expect(lines.join()).not.toMatch(/\p{Cc}|[\u202a-\u202e]/u);
    // The first line names the file, which is never cut.
    for (const line of lines.slice(1)) expect([line, stringWidth(line) <= columns]).toEqual([line, true]);
  });

  test('names the member beside a long title', () => {
    expect(planText(planOf(30, 3, { ...usual, title: 'word '.repeat(40) }), 80, 'apply')).toMatch(/ wor… \(Ada\)$/m);
  });

  test('says that there are no pull requests', () => {
    expect(planText(planOf(0), 80, 'apply')).toContain('none are stored yet');
  });
});

describe('the Markdown', () => {
  test('has the same figures as the text, in tables', () => {
    const lines = planMarkdown(planOf(40), 'pullscore rules apply rules.yaml --organisation acme').split('\n');
    expect(lines).toEqual(
      expect.arrayContaining([
        '### `Ada`: `Ada`, compared with version 3, which is in force',
        '- **Rules:** 1 added, 1 changed, 1 removed',
        '- **Pull requests:** 40 of 40 change their score (100%): 4 up, 36 down',
        '| SCORES | BEFORE | AFTER | CHANGE |',
        '| --- | --: | --: | --: |',
        '| `sum` | 2,322 | −514 | −2,836 |',
        '| `  + adds 2 if title != "Size"` |  |  |  | 40 | 100.0% | +80 |',
        '| `mean` | 58.05 | −12.85 | −70.90 |',
        '| RANK | MOVE | MEMBER | PULL REQUESTS | BEFORE | AFTER | CHANGE |',
        '| DOWN | SCORE | PULL REQUEST | TITLE | MEMBER |',
        '| −149 | `117 → −32` | `Ada#39` | `A fix` | `Ada` |',
        '… and 31 more.',
        'Nothing was saved. To put it in force: `pullscore rules apply rules.yaml --organisation acme`',
      ]),
    );
  });

  test('every column of the Markdown of a plan has a head', () => {
    const heads = planMarkdown(planOf(40), 'apply').match(/^\|.*(?=\n\| *-)/gm) ?? [];
    expect(heads).toHaveLength(8);
    for (const head of heads) expect(head).not.toMatch(/\| *\|/);
  });

  test.each([0, 1])('for %i pull requests has no empty tables', count => {
    const text = planMarkdown(planOf(count), 'apply');
    expect(text).not.toMatch(/NaN|undefined|Infinity|null|\n{3}/);
    expect(text.includes('| SCORES |')).toBe(count > 0);
  });

  // GitHub makes links, formulas and smileys of most.
  const pieces = '@team|#7|GH-7|`|``|\\|\\||*|[x](y)|<img>|&amp;|http://a|www.a.example|$x$|:tada:|\n|\u001b['.split(
    '|',
  );
  const hostile = fc.array(fc.constantFrom(...pieces, '|'), { maxLength: 12 }).map(parts => `x${parts.join('')}`);
  /** Cells as GitHub reads them. */
  const cellsOf = (line: string) =>
    [...line.slice(1, -1).matchAll(/(?:\\[!-/:-@[-`{-~]|[^|])+/g)].map(([cell]) => cell.trim());

  test('keeps its tables with any texts, and every text in them is code', () => {
    fc.assert(
      fc.property(hostile, hostile, (title, rule) => {
        const text = planMarkdown(planOf(3, 2, { title, url: 'https://a.example', name: title, rule }), 'apply');
        expect(text).not.toContain('\u001b');
        for (const block of text.split('\n\n').filter(part => part.startsWith('|'))) {
          const rows = block.trim().split('\n').map(cellsOf);
          expect(new Set(rows.map(cells => cells.length)).size).toBe(1);
          for (const cell of rows.slice(2).flat()) {
            const [fence = ''] = /^`+/.exec(cell) ?? [];
            if (fence === '') expect(cell).toMatch(/^[\d,.%+−±]*$/);
            // Code ends at the first run of as many backticks.
            else expect(cell.split(new RegExp(`(?<!\`)${fence}(?!\`)`))).toEqual(['', expect.any(String), '']);
          }
        }
      }),
      { numRuns: 40 },
    );
  });

  test('with many rules fits into a comment', () => {
    const [first] = planOf(1).rules;
    if (first === undefined) throw new Error('no rule');
    const rules = Array.from({ length: 200 }, () => ({ ...first, name: 'x'.repeat(200) }));
    const text = planMarkdown({ ...planOf(40), rules }, 'apply');
    expect(text.length).toBeLessThan(65_536);
    expect(text).toMatch(/… and \d+ more/);
  });
});

test('a count of ten million fits beside the chart', () => {
  const summary = { sum: 0, mean: 0, median: 0, minimum: 0, maximum: 0 };
  const { markup } = distributionChart([{ from: 0, to: 1, before: 0, after: 10_000_000 }], null, summary);
  const labels = [...markup.matchAll(/x="([\d.]+)"[^>]* text-anchor="end">([^<]*)</g)];
  expect(labels.map(([, , label]) => label)).toContain('10,000,000');
  for (const [, right, label = ''] of labels) expect(Number(right)).toBeGreaterThan(label.length * 7.2);
});
