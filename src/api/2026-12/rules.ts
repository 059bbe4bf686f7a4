import type { Readable } from 'node:stream';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { type Static, Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import examples from '../../../openapi/2026-12.examples.json' with { type: 'json' };
import { getOrganisation } from '../../database/organisations.ts';
import { findApplication, getRuleset, listApplications } from '../../database/rules.ts';
import { findUserRow } from '../../database/users.ts';
import { badRequest, preconditionRequired, unsupportedMediaType } from '../../errors.ts';
import { version as release } from '../../package.ts';
import { readAudit } from '../../reports/audit.ts';
import { readPlan } from '../../reports/plan.ts';
import { applyRules } from '../../reports/rules.ts';
import { checkFile, maxFileBytes } from '../../reports/rules-file.ts';
import { evaluatedLogic } from '../../scoring/ruleset.ts';
import { unixSeconds } from '../../text/times.ts';
import { invalidToken } from '../authentication.ts';
import { errorResponses } from '../error-handlers.ts';
import { isUnchanged, notModified, sendTagged } from '../page-cache.ts';
import { dataOf, sendList } from '../pagination.ts';
import { whileConnected } from '../replies.ts';
import { ruleFields } from '../rules.ts';
import { closedObject, Nullable } from '../validation.ts';
import { Audit, Plan } from './plan.ts';

const RulesMeta = closedObject({
  version: Type.Integer({ description: 'The version in force; 0 before any rules were applied' }),
  applied_at: Nullable(Type.Integer(), 'When it was applied, Unix seconds; null for version 0'),
  applied_by: Nullable(Type.String(), 'By whom; null for version 0'),
});

const maxVersions = 1_000;

const RulesVersion = closedObject({
  version: Type.Integer({ description: 'Its number, from 1' }),
  applied_at: Type.Integer({ description: 'When it was applied, Unix seconds' }),
  applied_by: Type.String({ description: 'By whom' }),
  suspended_at: Nullable(Type.Integer(), 'When it was suspended because it broke a bound, Unix seconds'),
});

const AppliedRules = closedObject({
  organisation: Type.String({ description: "The organisation's login" }),
  version: Type.Integer({ description: 'The version that is now in force' }),
  changed: Type.Boolean({ description: 'False if the rules were in force already' }),
  rules: Type.Integer({ description: 'How many rules the file has for pull requests' }),
  reviews: Type.Integer({ description: 'How many rules it has for reviews' }),
  source_changed: Type.Boolean({ description: 'Whether its text differs, comments and tests included' }),
  outdated: Type.Integer({ description: 'How many stored scores have yet to be recalculated' }),
});

export const ruleRoutes: FastifyPluginAsyncTypebox = async app => {
  const { database } = app.deps;

  app.get(
    '/rules',
    {
      schema: {
        operationId: 'rules.index',
        summary: 'List all rules',
        description: 'The rules in force, sorted by creation date, most recent first.',
        tags: ['Rules'],
        response: {
          200: Type.Unsafe<Readable>(
            closedObject(
              {
                data: Type.Array(Type.Ref('Rule')),
                reviews: Type.Array(closedObject(ruleFields), { description: 'The rules for reviews, in their order' }),
                meta: RulesMeta,
              },
              { description: 'The rules' },
            ),
          ),
          ...notModified,
          ...errorResponses(),
        },
      },
    },
    async (request, reply) => {
      const { organisationId } = request.caller;
      const { version, rules } = await app.readRuleList(organisationId);
      // Versions are counted by organisation, and another release may show the same rules in another way.
      if (isUnchanged(request, reply, `"${release}.${organisationId}.${version}"`)) return undefined as never;
      const applied = await findApplication(database.executor, organisationId, version);
      const meta: Static<typeof RulesMeta> = {
        version,
        applied_at: applied === undefined ? null : Math.floor(applied.appliedAt.getTime() / 1000),
        applied_by: applied?.appliedBy ?? null,
      };
      return sendList(reply, rules, {
        reviews: (applied?.reviews ?? []).map(rule => ({
          name: rule.name,
          description: rule.description,
          is_enabled: rule.is_enabled,
          logic: evaluatedLogic(rule),
        })),
        meta,
      });
    },
  );

  app.get(
    '/rules/versions',
    {
      schema: {
        operationId: 'rules.versions.index',
        summary: 'List the versions of the rules',
        description: 'The latest 1,000, most recent first.',
        tags: ['Rules'],
        response: {
          200: dataOf(Type.Array(RulesVersion), 'The versions'),
          ...notModified,
          ...errorResponses(),
        },
      },
    },
    async (request, reply) => {
      const versions = await listApplications(database.executor, request.caller.organisationId, maxVersions);
      const data: Static<typeof RulesVersion>[] = versions.map(({ version, appliedAt, appliedBy, suspendedAt }) => ({
        version,
        applied_at: Math.floor(appliedAt.getTime() / 1000),
        applied_by: appliedBy,
        suspended_at: unixSeconds(suspendedAt),
      }));
      return sendTagged(request, reply, Buffer.from(JSON.stringify({ data }))) as never;
    },
  );

  app.get(
    '/rules/file',
    {
      config: { scope: 'rules:read' },
      schema: {
        operationId: 'rules.file.show',
        summary: 'Get the rules file in force',
        description: 'The text of the file that was applied. Its `ETag` is the version.',
        tags: ['Rules'],
        response: {
          200: { content: { 'application/yaml': { schema: Type.String({ description: 'The rules file' }) } } },
          ...errorResponses(),
        },
      },
    },
    async ({ caller: { organisationId } }, reply) => {
      const { rulesetVersion } = await getOrganisation(database.executor, organisationId);
      const { source } = await getRuleset(database.executor, organisationId, rulesetVersion);
      reply.header('etag', `"${rulesetVersion}"`).type('application/yaml; charset=utf-8');
      return source as never;
    },
  );

  await app.register(fileRoutes);
};

const fileRoutes: FastifyPluginAsyncTypebox = async app => {
  const { database, scorer } = app.deps;
  app.removeAllContentTypeParsers();
  const options = { parseAs: 'buffer', bodyLimit: maxFileBytes } as const;
  app.addContentTypeParser('application/yaml', options, async ({ headers }: FastifyRequest, body: Buffer) => {
    const [, charset = 'utf-8'] = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(headers['content-type'] ?? '') ?? [];
    if (!/^utf-?8$/i.test(charset)) throw unsupportedMediaType('A rules file must be in UTF-8.');
    if (!/^identity$/i.test(headers['content-encoding'] ?? 'identity')) {
      throw unsupportedMediaType('A rules file must not be compressed.');
    }
    return body;
  });
  app.addContentTypeParser('*', { parseAs: 'buffer' }, async () => {
    throw unsupportedMediaType('The content type must be application/yaml.');
  });
  app.admitBodies(app, maxFileBytes, ({ caller }) => caller.organisationId);

  /** A rules file that has no mistakes. */
  async function readFile({ caller, body }: FastifyRequest, signal: AbortSignal) {
    const file = await checkFile(scorer, caller.organisationId, Buffer.isBuffer(body) ? body : Buffer.alloc(0), signal);
    return { name: 'request body', ruleset: file };
  }

  const ofFile = {
    tags: ['Rules'],
    consumes: ['application/yaml'],
    body: Type.Unsafe<Buffer>({
      type: 'string',
      description: 'The rules file',
      examples: [examples['v202612.rules.file.show']],
    }),
  };
  const invalidFile = ['bad_request', 'The rules file or a parameter is not valid; the message says why'] as const;
  const read = { scope: 'rules:read' } as const;

  app.post(
    '/rules/plan',
    {
      config: read,
      schema: {
        ...ofFile,
        operationId: 'rules.plan',
        summary: 'Plan a change of the rules',
        description: 'Scores all stored pull requests by the rules in force and by these. Saves nothing.',
        querystring: closedObject({
          audit: Type.Optional(
            Type.Boolean({ description: 'Whether to search both for ways to game them, too, and compare these' }),
          ),
        }),
        response: {
          200: dataOf(Type.Ref(Plan), 'What the file would change'),
          ...errorResponses(invalidFile),
        },
      },
    },
    async (request, reply) => {
      const signal = whileConnected(reply);
      const file = await readFile(request, signal);
      const { audit: withAudit = false } = request.query;
      const options = { withAudit, signal };
      const { file: _, ...plan } = await readPlan(app.deps, request.caller.organisationId, file, options);
      return { data: plan };
    },
  );

  app.post(
    '/rules/audit',
    {
      config: read,
      schema: {
        ...ofFile,
        operationId: 'rules.audit',
        summary: 'Search rules for ways to game them',
        description: 'Changes stored pull requests in small, cheap ways and scores them again. Saves nothing.',
        response: {
          200: dataOf(Type.Ref(Audit), 'How the file can be gamed'),
          ...errorResponses(invalidFile),
        },
      },
    },
    async (request, reply) => {
      const signal = whileConnected(reply);
      const { ruleset } = await readFile(request, signal);
      return { data: await readAudit(app.deps, request.caller.organisationId, ruleset, { signal }) };
    },
  );

  app.put(
    '/rules/file',
    {
      config: { scope: 'rules:write' },
      schema: {
        ...ofFile,
        operationId: 'rules.file.apply',
        summary: 'Apply a rules file',
        description:
          'A file that differs from the one in force, even if only in its comments, is a new version, and the new `ETag`. If ' +
          'its rules differ, the service then updates every score.',
        headers: Type.Object({
          'if-match': Type.Optional(
            Type.String({ description: 'The version that must be in force, such as `"7"`; `*` for any. Required.' }),
          ),
        }),
        response: {
          200: dataOf(AppliedRules, 'What was applied'),
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
      return { data: applied };
    },
  );
};

/** @returns undefined for any version */
function versionOf(ifMatch: string | undefined): number | undefined {
  const parameter = 'if-match';
  if (ifMatch === undefined) {
    const action = 'Send the version of the rules that the file was planned against, such as "7".';
    throw preconditionRequired('If-Match is missing.', action, { parameter });
  }
  const [, version] = /^"(0|[1-9]\d{0,8})"$/.exec(ifMatch) ?? [];
  if (version === undefined && ifMatch !== '*') {
    throw badRequest('If-Match must be one version in quotes, or *.', undefined, { parameter });
  }
  return version === undefined ? undefined : Number(version);
}
