import { createRequire } from 'node:module';
import { expect, test } from 'vitest';
import { start } from './support.ts';

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Paths at which `ours` differs from the example in type, or that the example does not have. */
function differences(ours: Json, example: Json, path = ''): string[] {
  return Object.keys(ours).flatMap(key => {
    const [mine, theirs] = [ours[key], example[key]];
    const here = `${path}${key}`;
    if (!(key in example)) return [`${here} is not in the example`];
    if (mine === null || theirs === null) return [];
    if (isObject(mine) && isObject(theirs)) return differences(mine, theirs, `${here}.`);
    return typeof mine === typeof theirs && Array.isArray(mine) === Array.isArray(theirs)
      ? []
      : [`${here} is of another type`];
  });
}

/** All keys of all published examples of an event, because they come from different years. */
function exampleOf(event: string, action: string): Json {
  const all: { name: string; examples: Json[] }[] = createRequire(import.meta.url)('@octokit/webhooks-examples');
  const fitting = all
    .filter(each => each.name === event)
    .flatMap(each => each.examples)
    .filter(each => each.action === action);
  const merge = (into: Json, from: Json): Json => {
    for (const [key, value] of Object.entries(from)) {
      const known = into[key];
      into[key] = isObject(known) && isObject(value) ? merge({ ...known }, value) : (value ?? known ?? null);
    }
    return into;
  };
  return fitting.reduce((merged, each) => merge(merged, each), {});
}

test("a webhook of the stand-in has GitHub's published form", async () => {
  const { github, acme, web } = await start();
  const alice = acme.member('alice');
  const bob = github.account('bob');
  const joined = acme.join(bob);
  const pullRequest = web.openPullRequest({ author: alice, body: 'Text' });
  const events = [
    pullRequest.opened,
    pullRequest.push(),
    pullRequest.review(bob, 'APPROVED'),
    pullRequest.convertToDraft(),
    pullRequest.markReady(),
    pullRequest.merge(),
    pullRequest.comment(bob),
    pullRequest.deleteComment(bob),
    joined,
    web.renameLabel('bug', 'defect'),
    web.deleteLabel('defect'),
    web.deleteMilestone('v1'),
    web.rename('site'),
  ];
  // Keys that are newer than the examples or in none of them, and our own names of hooks.
  const newer = new RegExp(
    [
      'custom_properties|web_commit_signoff_required|before|after|organization is not in|changes.name is not in',
      'issue.pull_request is not in|reactions|performed_via_github_app',
    ].join('|'),
  );
  for (const each of events) {
    if (!each) throw new Error('no event');
    const example = exampleOf(each.event, String(each.action));
    expect(Object.keys(example).length, `${each.event} ${each.action}`).toBeGreaterThan(0);
    const wrong = differences(each.payload as unknown as Json, example).filter(path => !newer.test(path));
    expect(wrong, `${each.event} ${each.action}`).toEqual([]);
  }
});
