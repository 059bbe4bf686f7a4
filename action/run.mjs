/**
 * What the action does: on a pull request it checks the rules file and comments with a plan; on a push it applies the
 * file, if it is the one that was planned and the version that it was planned against is still in force.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const {
  GITHUB_API_URL: api = 'https://api.github.com',
  GITHUB_EVENT_NAME: eventName,
  GITHUB_EVENT_PATH: eventPath = '',
  GITHUB_REPOSITORY: repository,
  GITHUB_TOKEN: githubToken,
  PULLSCORE_SERVER: server = '',
  PULLSCORE_TOKEN: token = '',
  RULES_FILE: givenFile = 'rules.yaml',
} = process.env;

const checkout = fileURLToPath(new URL('..', import.meta.url));
/** The action builds nothing: building takes packages that are for developers. A checkout has a build. */
const [program] = ['dist/main.js', 'src/main.ts'].map(path => resolve(checkout, path)).filter(existsSync);
const file = resolve(givenFile);

/** GitHub's limit for a comment. */
const maxCommentCharacters = 65_536;

/** Only this account's comments say what was planned: anybody else could write such a comment. */
const commenter = 'github-actions[bot]';

const sha256 = content => createHash('sha256').update(content).digest('hex');

/** Read once: what is planned, shown, compared and applied are these bytes, even if the file changes meanwhile. */
const content = readRules();
const hash = sha256(content);
/** A repository may have several files, or plan one on several servers: each has a comment of its own. */
const subject = sha256(`${givenFile}\n${server}`).slice(0, 16);
const marker = new RegExp(`^<!-- pullscore rules ${subject}, version (\\d+), sha256 ([0-9a-f]{64}) -->`);

function readRules() {
  try {
    return readFileSync(file);
  } catch ({ code }) {
    const advice = 'Check out the repository first, and name its rules file in the input file.';
    return fail(`${givenFile} can't be read: ${code}. ${advice}`);
  }
}

/** Ends the step with a line that is no command to GitHub's runner: what is quoted comes from commands that see to it. */
function fail(message) {
  process.stderr.write(`${message.trim()}\n`);
  process.exit(1);
}

/** Runs a command of pullscore without a shell, with no other secret than its token, and without the repository's `.env`. */
function pullscore(...words) {
  const { PATH, NODE_EXTRA_CA_CERTS } = process.env;
  const env = { PATH, NODE_EXTRA_CA_CERTS, PULLSCORE_TOKEN: token };
  const options = { cwd: checkout, env, input: content, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 };
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...words], options);
  process.stderr.write(stderr);
  if (status !== 0) fail(`pullscore ${words.slice(0, 2).join(' ')} failed.`);
  return stdout;
}

async function github(method, path, body) {
  const reply = await fetch(`${api}/repos/${repository}/${path}`, {
    method,
    headers: { accept: 'application/vnd.github+json', authorization: `Bearer ${githubToken}` },
    ...(body && { body: JSON.stringify(body) }),
  });
  if (!reply.ok) fail(`GitHub answers ${reply.status} to ${method} ${path}. Check the permissions of the workflow.`);
  return reply.json();
}

async function find(path, isWanted) {
  for (let page = 1; ; page += 1) {
    const listed = await github('GET', `${path}?per_page=100&page=${page}`);
    const found = listed.find(isWanted);
    if (found !== undefined || listed.length < 100) return found;
  }
}

const isPlan = ({ user, body }) => user?.login === commenter && marker.test(body ?? '');
const findComment = number => find(`issues/${number}/comments`, isPlan);

async function plan({ number }) {
  process.stdout.write(pullscore('rules', 'check', file));
  if (token === '') {
    process.stdout.write('There is no token, as in a pull request from a fork: the file was only checked.\n');
    return;
  }
  // Before the plan: if another version comes into force meanwhile, this one is refused later, which is safe.
  const { version } = JSON.parse(pullscore('rules', 'export', '--json', '--server', server));
  const text = pullscore('rules', 'plan', '-', '--audit', '--format', 'markdown', '--server', server)
    .replace('`standard input`', () => `\`${givenFile}\``)
    .trimEnd()
    .replace(/To put it in force: .*$/, 'Merge this pull request to put it in force.');
  const body = `<!-- pullscore rules ${subject}, version ${version}, sha256 ${hash} -->\nThe file has the SHA-256 \`${hash}\`.\n\n${text}`;
  const cut = body.length > maxCommentCharacters ? `${body.slice(0, maxCommentCharacters - 100)}\n\n… cut.\n` : body;
  const known = await findComment(number);
  if (known === undefined) await github('POST', `issues/${number}/comments`, { body: cut });
  else await github('PATCH', `issues/comments/${known.id}`, { body: cut });
  process.stdout.write(`The plan against version ${version} is in a comment on the pull request.\n`);
}

async function apply({ after }) {
  const merged = await find(`commits/${after}/pulls`, each => each.merge_commit_sha === after);
  const comment = merged && (await findComment(merged.number));
  const [, version, planned] = marker.exec(comment?.body ?? '') ?? [];
  if (version === undefined) {
    fail('This file was not planned in a merged pull request. Open one that changes it, or apply it by hand.');
  }
  if (planned !== hash) {
    fail('This is not the file that was planned: something else changed it meanwhile. Plan it in a new pull request.');
  }
  process.stdout.write(pullscore('rules', 'apply', '-', '--yes', '--if-version', version, '--server', server));
}

if (program.endsWith('.ts') && !process.features.typescript) {
  fail(`Node ${process.versions.node} can't run TypeScript. Use actions/setup-node with Node 22.18 or newer.`);
}
const event = JSON.parse(readFileSync(eventPath, 'utf8'));
if (eventName === 'pull_request') await plan(event.pull_request);
else if (eventName === 'push') await apply(event);
else fail(`This action is for pull_request and push, not for ${eventName}.`);
