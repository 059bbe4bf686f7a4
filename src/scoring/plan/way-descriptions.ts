import type { Way } from './audit-ways.ts';
import type { ReviewWay } from './review-ways.ts';

/** What people read of each way to game rules, in commands and on the page. */
export const wayDescriptions: Record<Way | ReviewWay, string> = {
  split: 'split into two of half the size',
  pad: 'padded with lock, generated or docs files',
  commits: 'ten more commits',
  body: 'a longer description, with a linked issue',
  title: 'another prefix of the title',
  label: 'a label that the rules look for',
  reopen: 'closed and opened again',
  self_merge: 'merged by its author',
  bot_approval: 'approved by a bot',
  files: 'one file split into ten',
  rubber_stamp: 'a friend approves at once, without a comment',
  split_review: 'several reviews in place of one',
  trivial_comments: 'ten trivial comments more',
  mutual_approval: 'two who approve each other',
};
