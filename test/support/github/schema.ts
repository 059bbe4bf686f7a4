import { readFileSync } from 'node:fs';
import {
  buildSchema,
  type DocumentNode,
  type FieldNode,
  type GraphQLCompositeType,
  GraphQLError,
  type GraphQLSchema,
  getArgumentValues,
  getNamedType,
  isCompositeType,
  isInterfaceType,
  isObjectType,
  Kind,
  type OperationDefinitionNode,
  parse,
  type SelectionSetNode,
  validate,
} from 'graphql';

let built: GraphQLSchema | undefined;

/** GitHub's published schema; built once per process, in about 300 ms. */
export function githubSchema(): GraphQLSchema {
  // The file itself: the package's entry parses five megabytes of JSON first.
  built ??= buildSchema(
    readFileSync(new URL('./schema.graphql', import.meta.resolve('@octokit/graphql-schema')), 'utf8'),
    { assumeValid: true, assumeValidSDL: true, noLocation: true },
  );
  return built;
}

export interface Query {
  document: DocumentNode;
  operation: OperationDefinitionNode;
  errors: readonly GraphQLError[];
}

const queries = new Map<string, Query>();

/** Parsed and validated, cached by text. @throws GraphQLError if it does not parse. */
export function readQuery(text: string): Query {
  const known = queries.get(text);
  if (known) return known;
  const document = parse(text);
  const operation = document.definitions.find(definition => definition.kind === Kind.OPERATION_DEFINITION);
  if (!operation) throw new GraphQLError('There is no operation to execute');
  const query = { document, operation, errors: validate(githubSchema(), document) };
  queries.set(text, query);
  return query;
}

export const githubError = (type: string, message: string, path?: readonly (string | number)[]) =>
  new GraphQLError(message, { extensions: { type }, ...(path && { path }) });

const maxNodes = 500_000;

/**
 * GitHub's limits on what a query may ask for: connections need `first` or `last` from 1 to 100, and the nodes of all
 * connections, each multiplied by those around it, must stay within 500,000. A hundred connections' requests are a point.
 */
export function measureQuery({ document, operation }: Query, variables: Record<string, unknown>) {
  const schema = githubSchema();
  const fragments = new Map(
    document.definitions.flatMap(each => (each.kind === Kind.FRAGMENT_DEFINITION ? [[each.name.value, each]] : [])),
  );
  let nodeCount = 0;
  let requests = 0;
  let error: GraphQLError | undefined;

  function measureField(field: FieldNode, parent: GraphQLCompositeType, parents: number): void {
    if (!isObjectType(parent) && !isInterfaceType(parent)) return;
    const name = field.name.value;
    const definition = parent.getFields()[name];
    const type = getNamedType(definition?.type);
    if (definition === undefined || !field.selectionSet || !isCompositeType(type)) return;
    let children = parents;
    if (type.name.endsWith('Connection')) {
      const wanted = getArgumentValues(definition, field, variables);
      const bound = wanted.first === undefined ? 'last' : 'first';
      const size = wanted[bound] ?? undefined;
      const lists = field.selectionSet.selections.some(
        each => each.kind !== Kind.FIELD || each.name.value === 'nodes' || each.name.value === 'edges',
      );
      if (size === undefined && lists) {
        error ??= githubError(
          'MISSING_PAGINATION_BOUNDARIES',
          `You must provide a \`first\` or \`last\` value to properly paginate the \`${name}\` connection.`,
        );
      } else if (size !== undefined && !(typeof size === 'number' && size >= 1 && size <= 100)) {
        error ??= githubError(
          'EXCESSIVE_PAGINATION',
          `Requesting ${size} records on the \`${name}\` connection exceeds the \`${bound}\` limit of 100 records.`,
        );
      } else if (typeof size === 'number') {
        requests += parents;
        children = parents * size;
        nodeCount += children;
      }
    }
    measure(field.selectionSet, type, children);
  }

  function measure(selections: SelectionSetNode, parent: GraphQLCompositeType, parents: number): void {
    for (const selection of selections.selections) {
      if (selection.kind === Kind.FIELD) {
        measureField(selection, parent, parents);
        continue;
      }
      const fragment = selection.kind === Kind.FRAGMENT_SPREAD ? fragments.get(selection.name.value) : selection;
      const condition = fragment?.typeCondition;
      const type = condition ? schema.getType(condition.name.value) : parent;
      if (fragment && isCompositeType(type)) measure(fragment.selectionSet, type, parents);
    }
  }

  const root = schema.getRootType(operation.operation);
  if (root) measure(operation.selectionSet, root, 1);
  if (nodeCount > maxNodes) {
    error ??= githubError(
      'MAX_NODE_LIMIT_EXCEEDED',
      `This query requests up to ${nodeCount} possible nodes which exceeds the maximum limit of ${maxNodes}.`,
    );
  }
  return { nodeCount, cost: Math.max(1, Math.round(requests / 100)), error };
}
