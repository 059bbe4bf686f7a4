import type { TSchema } from '@sinclair/typebox';
import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import type { ServiceError } from '../errors.ts';
import { baseUrl } from './addresses.ts';

/** An OpenAPI document that is generated from the version's routes. */
export interface GeneratedDocument {
  readonly info: { title: string; description: string; version: string };
  readonly tags: { name: string; description: string }[];
  /** To which the routes refer by `$id`; one of them is `Error`. */
  readonly schemas: readonly TSchema[];
  /** Bodies of replies that are no errors, by the id of their operation. */
  readonly examples: Readonly<Record<string, unknown>>;
}

/** That of a version in which nothing changes any more: its replies need no schemas. */
interface FinishedDocument {
  readonly finished: object;
}

/** A dated version of the interface: what it does not share with the others. */
export interface Version {
  /** The first part of its paths. */
  readonly name: string;
  readonly document: { readonly path: string } & (GeneratedDocument | FinishedDocument);
  /** What pages of other origins may send. */
  readonly cors: { readonly methods: string[]; readonly headers: string[] };
  representError(failure: ServiceError, requestId: string): object;
  /** Otherwise parameters that a route does not declare are ignored. */
  readonly refusesUnknownParameters: boolean;
  readonly routes: FastifyPluginAsync;
}

/** The address with which the paths of the request's version begin. */
export const versionUrl = (request: FastifyRequest): string => baseUrl(request) + request.server.prefix;
