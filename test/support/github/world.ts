import type { WebhookEvent } from './events.ts';
import type { Organisation } from './organisation.ts';
import type { PullRequest } from './pull-request.ts';
import type { Repository } from './repository.ts';

/** A person, bot or placeholder. A deleted one shows everywhere as nobody: GitHub's "ghost". */
export interface Account {
  type: 'Bot' | 'Mannequin' | 'User';
  id: number;
  nodeId: string;
  /** Without a bot's `[bot]`: GraphQL leaves it out, webhooks add it. */
  login: string;
  name: string | null;
  avatarUrl: string;
  deleted: boolean;
}

export type Clock = ReturnType<typeof createClock>;

/** Whole Unix seconds, as all of GitHub's times are. */
export function createClock() {
  let fixed: number | undefined;
  const now = () => fixed ?? Math.floor(Date.now() / 1000);
  return {
    now,
    /** Stops the clock at this second, so that tests can create equal times. */
    set(seconds: number): void {
      fixed = seconds;
    },
    /** Stops the clock, that many seconds later. */
    advance(seconds: number): void {
      fixed = now() + seconds;
    },
    run(): void {
      fixed = undefined;
    },
  };
}

export const isoTime = (seconds: number) => new Date(seconds * 1000).toISOString().replace('.000Z', 'Z');
export const optionalIsoTime = (seconds: number | null) => (seconds === null ? null : isoTime(seconds));

/** GitHub's newer global ids: a prefix and, in base64url, the MessagePack list `[0, …numbers]`. */
export function globalId(prefix: string, ...numbers: number[]): string {
  const bytes = Buffer.alloc(2 + numbers.length * 9);
  let length = bytes.writeUInt8(0x91 + numbers.length, 0);
  length = bytes.writeUInt8(0, length);
  for (const number of numbers) {
    if (number < 2 ** 32) {
      length = bytes.writeUInt32BE(number, bytes.writeUInt8(0xce, length));
    } else {
      length = bytes.writeBigUInt64BE(BigInt(number), bytes.writeUInt8(0xcf, length));
    }
  }
  return `${prefix}_${bytes.subarray(0, length).toString('base64url')}`;
}

/** As large as on github.com: many do not fit into a signed 32-bit number. */
const firstIds = {
  account: 60_000_001,
  organisation: 90_000_001,
  repository: 700_000_001,
  pullRequest: 2_900_000_001,
  issue: 3_500_000_001,
  review: 3_100_000_001,
  comment: 3_300_000_001,
  label: 5_000_000_001,
  milestone: 9_000_001,
};

export type Node = Account | Organisation | PullRequest | Repository;

export type World = ReturnType<typeof createWorld>;

/**
 * Everything that this GitHub holds.
 *
 * @param webUrl base of the pages that people open
 * @param apiUrl base of the REST API
 * @param emit sends an event to the webhooks
 */
export function createWorld(
  clock: Clock,
  webUrl: string,
  apiUrl: string,
  emit: (event: WebhookEvent, organisation: Organisation) => void,
) {
  const next = { ...firstIds };
  return {
    clock,
    webUrl,
    apiUrl,
    accounts: new Map<string, Account>(),
    organisations: new Map<string, Organisation>(),
    nodes: new Map<string, Node>(),
    /** Former `owner/name`, lower case, of repositories that moved. */
    formerNames: new Map<string, Repository>(),
    nextId: (kind: keyof typeof firstIds) => next[kind]++,
    emit,
  };
}

const accountPrefixes = { User: 'U', Bot: 'BOT', Mannequin: 'M' };

/** The account of this login, created on first mention. */
export function accountOf(
  world: World,
  login: string,
  options: { name?: string | null; type?: Account['type']; id?: number } = {},
): Account {
  const known = world.accounts.get(login.toLowerCase());
  if (known) return known;
  const type = options.type ?? 'User';
  const id = options.id ?? world.nextId('account');
  const account: Account = {
    type,
    id,
    nodeId: globalId(accountPrefixes[type], id),
    login,
    name: options.name ?? null,
    avatarUrl: `https://avatars.githubusercontent.com/u/${id}?v=4`,
    deleted: false,
  };
  world.accounts.set(login.toLowerCase(), account);
  world.nodes.set(account.nodeId, account);
  return account;
}
