/** The reviews in a test: the facts of each, and the score that they must give. */
import { maxReviewers } from '../../pull-request.ts';
import { emptyReview, type ReviewFacts, reviewFactNames } from '../facts.ts';
import { nameInQuotes } from '../language/text-operations.ts';
import { type Report, readList, readMap, readScore } from './keys.ts';
import { readFacts } from './test-facts.ts';
import type { YamlNode } from './yaml-node.ts';

export interface TestReview {
  /** In the file, from 1. */
  line: number;
  facts: ReviewFacts;
  /** The expected score. */
  score: number;
}

function readTestReview(node: YamlNode, place: string, report: Report): TestReview | undefined {
  const map = readMap(node, [...reviewFactNames, 'score'], place, report);
  if (map === undefined) return undefined;
  const score = readScore(map, place, report);
  const fail = (name: string, problem: string) => report(map.lineOf(name), place + problem, { part: name });
  const given = readFacts(reviewFactNames, map.nodeOf, fail) as Partial<ReviewFacts>;
  const { reviewer, reviewer_is_member: isMember, reviewer_is_bot: isBot = false } = given;
  const contradict = (one: string, other: string, reason: string) => {
    fail(one, `: \`${one}\` contradicts \`${other}\`: ${reason}; correct one, or leave it out`);
  };
  if (isMember && reviewer === null) contradict('reviewer', 'reviewer_is_member', 'members are known by their login');
  if (isMember === false && !isBot && typeof reviewer === 'string') {
    contradict('reviewer', 'reviewer_is_member', 'people who are not members have no name here');
  }
  const name = reviewer === undefined && isMember ? '' : (reviewer ?? null);
  const facts = {
    ...emptyReview,
    verdict: 'commented',
    reviewer: name,
    reviewer_is_member: name !== null && !isBot,
    ...given,
  };
  return { line: node.line, facts, score };
}

/** Problems are reported: what is read is then not used. */
export function readTestReviews(node: YamlNode | undefined, place: string, report: Report): TestReview[] {
  const nodes = readList(node, `${place}, reviews`, report);
  const extra = nodes[maxReviewers];
  if (extra !== undefined) report(extra.line, `${place} has ${nodes.length} reviews, more than ${maxReviewers}`);
  const reviews = nodes
    .slice(0, maxReviewers)
    .map((each, index) => readTestReview(each, `${place}, review ${index + 1}`, report))
    .filter(review => review !== undefined);
  const taken = new Set<string>();
  for (const { line, facts } of reviews) {
    const { reviewer } = facts;
    if (reviewer === null || reviewer === '') continue;
    if (taken.has(reviewer)) {
      report(line, `${place} has two reviews by ${nameInQuotes(reviewer)}; all that one person says is one review`, {
        part: 'reviewer',
      });
    }
    taken.add(reviewer);
  }
  return reviews;
}
