/** The parts of Kubernetes' objects that our manifests use: a key that is not here is a mistake, or belongs here. */
import { type Static, type TProperties, type TSchema, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';

const closed = <Properties extends TProperties>(properties: Properties) =>
  Type.Object(properties, { additionalProperties: false });
const optional = <Schema extends TSchema>(schema: Schema) => Type.Optional(schema);
const text = Type.String({ minLength: 1 });
const count = Type.Integer({ minimum: 0 });
const port = Type.Integer({ minimum: 1, maximum: 65_535 });
const memory = Type.String({ pattern: '^[1-9][0-9]*(Mi|Gi)$' });
const texts = Type.Record(Type.String(), Type.String());

const Labels = closed({ matchLabels: texts });
const Probe = closed({
  httpGet: closed({ path: text, port: text }),
  periodSeconds: count,
  // Kubernetes' own default of one second restarts a process that is only busy.
  timeoutSeconds: Type.Integer({ minimum: 2 }),
  failureThreshold: optional(count),
});
const Reference = closed({ name: text });
const Container = closed({
  name: text,
  image: Type.String({ pattern: '^ghcr\\.io/OWNER/pullscore:[0-9.]+$' }),
  args: Type.Array(text),
  envFrom: Type.Array(closed({ configMapRef: optional(Reference), secretRef: optional(Reference) })),
  env: optional(Type.Array(closed({ name: text, value: Type.String() }))),
  ports: optional(Type.Array(closed({ name: text, containerPort: port }))),
  startupProbe: optional(Probe),
  readinessProbe: optional(Probe),
  livenessProbe: optional(Probe),
  resources: closed({
    requests: closed({ cpu: Type.String({ pattern: '^[0-9]+m$' }), memory }),
    limits: closed({ memory }),
  }),
  securityContext: closed({
    allowPrivilegeEscalation: Type.Literal(false),
    readOnlyRootFilesystem: Type.Literal(true),
    capabilities: closed({ drop: Type.Tuple([Type.Literal('ALL')]) }),
  }),
  volumeMounts: Type.Array(closed({ name: text, mountPath: text })),
});
const Pod = closed({
  restartPolicy: optional(Type.Literal('Never')),
  automountServiceAccountToken: Type.Literal(false),
  // A Service called "metrics" would else set METRICS_PORT to an address.
  enableServiceLinks: Type.Literal(false),
  securityContext: closed({
    runAsNonRoot: Type.Literal(true),
    runAsUser: Type.Integer({ minimum: 1 }),
    seccompProfile: closed({ type: Type.Literal('RuntimeDefault') }),
  }),
  terminationGracePeriodSeconds: optional(Type.Integer({ minimum: 11 })),
  topologySpreadConstraints: optional(
    Type.Array(
      closed({
        maxSkew: count,
        topologyKey: text,
        whenUnsatisfiable: Type.Literal('ScheduleAnyway'),
        labelSelector: Labels,
      }),
    ),
  ),
  containers: Type.Tuple([Container]),
  volumes: Type.Array(closed({ name: text, emptyDir: closed({ sizeLimit: memory }) })),
});
const Template = closed({ metadata: closed({ labels: texts }), spec: Pod });
const PolicyPort = closed({ port, protocol: optional(Type.Union([Type.Literal('TCP'), Type.Literal('UDP')])) });

const object = <Properties extends TProperties>(apiVersion: string, kind: string, properties: Properties) =>
  closed({
    apiVersion: Type.Literal(apiVersion),
    kind: Type.Literal(kind),
    metadata: closed({ name: text, labels: texts }),
    ...properties,
  });

const Deployment = object('apps/v1', 'Deployment', {
  spec: closed({
    replicas: count,
    selector: Labels,
    strategy: optional(closed({ rollingUpdate: closed({ maxUnavailable: count, maxSurge: count }) })),
    template: Template,
  }),
});
const schemas: Record<string, TSchema> = {
  ConfigMap: object('v1', 'ConfigMap', { data: texts }),
  Job: object('batch/v1', 'Job', { spec: closed({ backoffLimit: count, template: Template }) }),
  Deployment,
  Service: object('v1', 'Service', {
    spec: closed({ selector: texts, ports: Type.Array(closed({ name: text, port, targetPort: text })) }),
  }),
  PodDisruptionBudget: object('policy/v1', 'PodDisruptionBudget', {
    spec: closed({ minAvailable: count, selector: Labels }),
  }),
  NetworkPolicy: object('networking.k8s.io/v1', 'NetworkPolicy', {
    spec: closed({
      podSelector: Labels,
      policyTypes: Type.Tuple([Type.Literal('Ingress'), Type.Literal('Egress')]),
      ingress: Type.Array(
        closed({ ports: Type.Array(PolicyPort), from: Type.Array(closed({ namespaceSelector: Labels })) }),
      ),
      egress: Type.Array(closed({ ports: Type.Array(PolicyPort) })),
    }),
  }),
};

/** Loosely typed where kinds differ: the schema has been checked before. */
export interface Manifest {
  readonly kind: string;
  readonly data?: Readonly<Record<string, string>>;
  // biome-ignore lint/suspicious/noExplicitAny: each kind has a spec of its own
  readonly spec: any;
}

/** Paths and messages of what is not as the schema says. */
export function schemaProblems(schema: TSchema | undefined, value: unknown): string[] {
  if (schema === undefined) return ['this kind is not known'];
  return [...Value.Errors(schema, value)].map(({ path, message }) => `${path || '/'}: ${message}`);
}

/** A process' own heap with room for garbage, buffers and code, and two scorers with theirs. */
const bytesOutsideHeaps = 256;
const scorers = { count: 2, megabytes: 256 + 96 };

const megabytes = (quantity: string) => Number.parseInt(quantity, 10) * (quantity.endsWith('Gi') ? 1024 : 1);

/** What the schema can't say: parts that belong together fit. */
export function manifestProblems(manifests: readonly Manifest[]): string[] {
  const problems = manifests.flatMap(manifest =>
    schemaProblems(schemas[manifest.kind], manifest).map(problem => `${manifest.kind}: ${problem}`),
  );
  if (problems.length > 0) return problems;
  const refuse = (isWrong: boolean, problem: string) => void (isWrong && problems.push(problem));
  const deployments = manifests.filter(({ kind }) => kind === 'Deployment') as Static<typeof Deployment>[];
  const portsOf = (each: Static<typeof Deployment>) => each.spec.template.spec.containers[0].ports ?? [];
  for (const { metadata, spec } of deployments) {
    const { labels } = spec.template.metadata;
    const [container] = spec.template.spec.containers;
    const { name } = metadata;
    refuse(!isPartOf(spec.selector.matchLabels, labels), `${name}: the selector does not match the pods`);
    const probes = { startupProbe: '/readyz', readinessProbe: '/readyz', livenessProbe: '/healthz' } as const;
    for (const [probe, path] of Object.entries(probes)) {
      const found = container[probe as keyof typeof probes];
      refuse(found === undefined, `${name}: there is no ${probe}`);
      if (found === undefined) continue;
      refuse(found.httpGet.path !== path, `${name}: ${probe} asks ${found.httpGet.path}, not ${path}`);
      const ports = (container.ports ?? []).map(each => each.name);
      refuse(!ports.includes(found.httpGet.port), `${name}: ${probe} names the port ${found.httpGet.port}`);
    }
    const options = container.env?.find(each => each.name === 'NODE_OPTIONS')?.value ?? '';
    const option = (flag: string) => Number(new RegExp(`--max-${flag}-space-size=(\\d+)`).exec(options)?.[1] ?? 16);
    const needed = option('old') + 3 * option('semi') + bytesOutsideHeaps + scorers.count * scorers.megabytes;
    const limit = megabytes(container.resources.limits.memory);
    refuse(!options.includes('--max-old'), `${name}: NODE_OPTIONS does not bound the heap`);
    refuse(limit < needed, `${name}: the memory limit of ${limit} MB is less than ${needed} MB, which it may take`);
  }
  for (const { spec } of manifests.filter(({ kind }) => kind === 'Service')) {
    const target = deployments.find(each => isPartOf(spec.selector, each.spec.template.metadata.labels));
    for (const { targetPort } of spec.ports) {
      const isKnown = target !== undefined && portsOf(target).some(({ name }) => name === targetPort);
      refuse(!isKnown, `Service: no pod that it selects has a port ${targetPort}`);
    }
  }
  for (const { spec } of manifests.filter(({ kind }) => kind === 'PodDisruptionBudget')) {
    const isKnown = deployments.some(each => isPartOf(spec.selector.matchLabels, each.spec.template.metadata.labels));
    refuse(!isKnown, 'PodDisruptionBudget: it selects no pod');
  }
  for (const { spec } of manifests.filter(({ kind }) => kind === 'NetworkPolicy')) {
    const open = (rules: { ports: { port: number; protocol?: string }[] }[]) =>
      rules
        .flatMap(({ ports }) => ports.map(each => `${each.port} ${each.protocol ?? 'TCP'}`))
        .sort()
        .join(', ');
    const served = deployments.flatMap(portsOf).map(({ containerPort }) => `${containerPort} TCP`);
    refuse(open(spec.ingress) !== served.sort().join(', '), 'NetworkPolicy: ingress is not what the pods serve');
    // DNS, GitHub and PostgreSQL.
    refuse(
      open(spec.egress) !== '443 TCP, 53 TCP, 53 UDP, 5432 TCP',
      'NetworkPolicy: egress is not DNS, GitHub and PostgreSQL',
    );
  }
  return problems;
}

const isPartOf = (part: Record<string, string>, whole: Record<string, string>) =>
  Object.entries(part).every(([key, value]) => whole[key] === value);

const Update = closed({
  'package-ecosystem': Type.Union(['npm', 'github-actions', 'docker'].map(name => Type.Literal(name))),
  directory: optional(text),
  directories: optional(Type.Array(text)),
  schedule: closed({ interval: Type.Literal('weekly') }),
  groups: optional(
    Type.Record(
      Type.String(),
      closed({
        'dependency-type': optional(Type.Union([Type.Literal('production'), Type.Literal('development')])),
        'update-types': optional(Type.Array(Type.Union(['major', 'minor', 'patch'].map(name => Type.Literal(name))))),
        patterns: optional(Type.Array(text)),
        'exclude-patterns': optional(Type.Array(text)),
      }),
    ),
  ),
});
/** `.github/dependabot.yml`. */
export const Dependabot = closed({ version: Type.Literal(2), updates: Type.Array(Update) });
