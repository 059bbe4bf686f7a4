/**
 * Rules over HTTP, for operators' automation: outside of the interface that the specification describes, with a
 * document of its own.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { invalidToken } from '../api/authentication.ts';
import { errorResponses } from '../api/error-replies.ts';
import { createPlaces } from '../api/places.ts';
import { closedObject, namedObject } from '../api/validation.ts';
import type { Version } from '../api/version.ts';
import { findUserRow } from '../database/users.ts';
import { badRequest, preconditionRequired, unsupportedMediaType } from '../errors.ts';
import { readAudit } from '../reports/audit.ts';
import { parseTarget, readExplanation } from '../reports/explanation.ts';
import { readPlan } from '../reports/plan.ts';
import { applyRules, readRules } from '../reports/rules.ts';
import { checkFile, maxFileBytes } from '../reports/rules-file.ts';
import { readStandings } from '../reports/standings.ts';

/** Each has a connection of its own. Standings of a million pull requests take seconds. */
const maxSnapshots = 4;

const introduction = `An organisation's rules, plans, totals and explanations, for its operators' automation: what the commands of
the same names print with \`--json\`. \`pullscore rules plan FILE --server URL\` and its siblings use this interface.

**Tokens.** Send \`Authorization: Bearer ps_…\`. An operator creates the token with \`pullscore token create --scopes rules:read\`,
and with \`rules:write\` for one that may apply rules. It sees one organisation.

**Versions.** \`GET\` and \`PUT /operator/rules\` have the version in force as their \`ETag\`. \`PUT\` needs \`If-Match\` with the version
that a plan was made against: if another one is in force meanwhile, the reply is 412 and nothing changes. \`*\` stands for any.

**Limits.** A rules file has up to 2 MB. An organisation has one at a time, a second gets 429 with \`Retry-After\`. It waits for up
to 30 seconds for those of others, of which the organisation served longest ago is next, and then gets 429, too. A plan has ten
minutes, and ends when its client goes away. Reads of an organisation wait for one another.`;

const document = (description: string) => Type.Unsafe<object>({ description });
const Day = Type.Optional(Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$', description: 'A day, UTC' }));

const operatorRoutes: FastifyPluginAsyncTypebox = async app => {
  const { database, scorer } = app.deps;
  app.removeAllContentTypeParsers();
  const options = { parseAs: 'buffer', bodyLimit: maxFileBytes } as const;
  app.addContentTypeParser('application/yaml', options, async ({ headers }: FastifyRequest, body: Buffer) => {
    const [, charset = 'utf-8'] = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(headers['content-type'] ?? '') ?? [];
    if (/^utf-?8$/i.test(charset)) return body;
    throw unsupportedMediaType('A rules file must be in UTF-8.');
  });
  app.addContentTypeParser('*', { parseAs: 'buffer' }, async () => {
    throw unsupportedMediaType('The content type must be application/yaml.');
  });
  app.admitBodies(app, maxFileBytes, ({ caller }) => caller.organisationId);
  const inPlace = createPlaces(maxSnapshots);

  /** A rules file that has no mistakes. */
  async function readFile({ caller, body }: FastifyRequest, signal: AbortSignal) {
    const file = await checkFile(scorer, caller.organisationId, Buffer.isBuffer(body) ? body : Buffer.alloc(0), signal);
    return { name: 'request body', ruleset: file };
  }

  const consumes = ['application/yaml'];
  const body = Type.Unsafe<Buffer>({ type: 'string', description: 'The rules file' });
  const invalidFile = ['bad_request', 'The rules file or a parameter is not valid; the message says why'] as const;
  const read = { scope: 'rules:read' } as const;

  app.post(
    '/rules/plan',
    {
      config: read,
      schema: {
        operationId: 'operator.rules.plan',
        summary: 'Plan a change of the rules',
        description: 'Scores all stored pull requests by the rules in force and by these. Saves nothing.',
        consumes,
        body,
        querystring: closedObject({
          audit: Type.Optional(
            Type.Literal('true', { description: 'Also search both for ways to game them, and compare these' }),
          ),
        }),
        response: { 200: document('What `rules plan --json` prints'), ...errorResponses(invalidFile) },
      },
    },
    async (request, reply) => {
      const signal = whileConnected(reply);
      const file = await readFile(request, signal);
      const withAudit = request.query.audit !== undefined;
      return readPlan(app.deps, request.caller.organisationId, file, { withAudit, signal });
    },
  );

  app.post(
    '/rules/audit',
    {
      config: read,
      schema: {
        operationId: 'operator.rules.audit',
        summary: 'Search rules for ways to game them',
        description: 'Changes stored pull requests in small, cheap ways and scores them again. Saves nothing.',
        consumes,
        body,
        querystring: closedObject({}),
        response: { 200: document('What `rules audit --json` prints'), ...errorResponses(invalidFile) },
      },
    },
    async (request, reply) => {
      const signal = whileConnected(reply);
      const { ruleset } = await readFile(request, signal);
      return readAudit(app.deps, request.caller.organisationId, ruleset, { signal });
    },
  );

  app.get(
    '/rules',
    {
      config: read,
      schema: {
        operationId: 'operator.rules.show',
        summary: 'Get the rules in force',
        description: 'Its `ETag` is their version.',
        querystring: closedObject({}),
        response: { 200: document('What `rules export --json` prints'), ...errorResponses() },
      },
    },
    async (request, reply) => {
      const rules = await readRules(database, request.caller.organisationId);
      reply.header('etag', `"${rules.version}"`);
      return rules;
    },
  );

  app.put(
    '/rules',
    {
      config: { scope: 'rules:write' },
      schema: {
        operationId: 'operator.rules.apply',
        summary: 'Apply rules',
        description: 'The service then updates every score. The new `ETag` is the version in force.',
        consumes,
        body,
        querystring: closedObject({}),
        headers: Type.Object({
          'if-match': Type.Optional(
            Type.String({ description: 'The version that must be in force, such as `"7"`; `*` for any. Required.' }),
          ),
        }),
        response: {
          200: document('What `rules apply --json` prints'),
          ...errorResponses(
            invalidFile,
            ['precondition_failed', 'Another version is in force; nothing has changed'],
            ['precondition_required', '`If-Match` is missing'],
          ),
        },
      },
    },
    async (request, reply) => {
      const expected = versionOf(request.headers['if-match']);
      const { organisationId, userId } = request.caller;
      const { ruleset } = await readFile(request, whileConnected(reply));
      const user = await findUserRow(database, organisationId, userId);
      // Removed a moment ago, and the token with them.
      if (user === undefined) throw invalidToken();
      const actor = { name: user.email, requestId: request.id };
      const applied = await applyRules(database, organisationId, ruleset, { actor, appliedBy: user.email, expected });
      reply.header('etag', `"${applied.version}"`);
      return applied;
    },
  );

  app.get(
    '/standings',
    {
      config: read,
      schema: {
        operationId: 'operator.standings.show',
        summary: 'Total the scores of members or repositories',
        querystring: closedObject({
          since: Day,
          until: Day,
          by: Type.Optional(Type.Union([Type.Literal('created'), Type.Literal('merged')])),
          of: Type.Optional(Type.Union([Type.Literal('members'), Type.Literal('repositories')])),
        }),
        response: { 200: document('What `standings --json` prints'), ...errorResponses('bad_request') },
      },
    },
    ({ caller: { organisationId }, query: { by = 'created', of = 'members', ...days } }, reply) =>
      inPlace(organisationId, whileConnected(reply), () =>
        readStandings(database, organisationId, { by, of, ...days }, { withRules: true }),
      ),
  );

  app.get(
    '/explanations/:pull_request',
    {
      config: read,
      schema: {
        operationId: 'operator.explanations.show',
        summary: 'Explain a score',
        querystring: closedObject({}),
        params: Type.Object({
          // PostgreSQL's texts can't hold a NUL.
          pull_request: Type.String({
            pattern: '^[^\\0]*$',
            description: "Its id, `OWNER/NAME#NUMBER`, or its page's address",
          }),
        }),
        response: { 200: document('What `explain --json` prints'), ...errorResponses('bad_request', 'not_found') },
      },
    },
    ({ caller: { organisationId }, params }, reply) => {
      const target = parseTarget(params.pull_request);
      const signal = whileConnected(reply);
      return inPlace(organisationId, signal, () => readExplanation(app.deps, target, { organisationId, signal }));
    },
  );
};

/** Aborted if the client goes away. */
function whileConnected({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController();
  const abort = () => gone.abort(badRequest('The client broke off its request.'));
  if (raw.destroyed) abort();
  raw.once('close', abort);
  return gone.signal;
}

/** @returns undefined for any version */
function versionOf(ifMatch: string | undefined): number | undefined {
  if (ifMatch === undefined) {
    throw preconditionRequired(
      'If-Match is missing.',
      'Send the version of the rules that the file was planned against, such as "7".',
    );
  }
  const [, version] = /^"(\d{1,9})"$/.exec(ifMatch) ?? [];
  if (version === undefined && ifMatch !== '*') {
    throw badRequest('If-Match must be one version in quotes, or *.');
  }
  return version === undefined ? undefined : Number(version);
}

export const operatorVersion: Version = {
  name: 'operator',
  document: {
    path: '/operator/openapi.json',
    info: { title: 'pullscore for operators', description: introduction, version: '1' },
    tags: [],
  },
  cors: { methods: ['GET', 'PUT', 'DELETE'], headers: ['if-none-match'] },
  representError: ({ text }) => ({ message: text }),
  refusesUnknownParameters: true,
  schemas: [namedObject('Error', { message: Type.String({ description: 'An overview of the error' }) })],
  routes: operatorRoutes,
};
