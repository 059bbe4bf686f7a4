import { Organisation } from './organisation.ts';
import type { ChangedFile, PullRequest } from './pull-request.ts';
import { accountOf, type World } from './world.ts';

/** A pull request of a data set. Times are ISO 8601. */
export interface LoadedRecord {
  /** `owner/name` */
  repository: string;
  number: number;
  title: string;
  body: string;
  /** A login; a bot's may end in `[bot]`. */
  author: string;
  is_bot: boolean;
  state: 'closed' | 'draft' | 'merged' | 'open';
  additions: number;
  deletions: number;
  changed_files: number;
  files: ChangedFile[];
  commits: number;
  created_at: string;
  merged_at: string | null;
}

export interface LoadOptions {
  /** Puts all repositories into this organisation instead of each record's owner. */
  organisation?: string;
  /** Makes authors members unless they are bots; true by default. */
  members?: boolean;
}

const seconds = (iso: string) => Math.floor(Date.parse(iso) / 1000);

/** Adds pull requests as history, without webhooks, and creates organisations, repositories and accounts as needed. */
export function loadRecords(world: World, records: readonly LoadedRecord[], options: LoadOptions = {}): PullRequest[] {
  return records.map(record => {
    const [owner = '', name = ''] = record.repository.split('/');
    const login = options.organisation ?? owner;
    const organisation = world.organisations.get(login.toLowerCase()) ?? new Organisation(world, login, login);
    const bot = record.is_bot;
    const author = accountOf(world, record.author.replace(/\[bot\]$/, ''), { type: bot ? 'Bot' : 'User' });
    if (!bot && options.members !== false) organisation.members.set(author.id, author);
    const createdAt = seconds(record.created_at);
    const mergedAt = record.merged_at === null ? null : seconds(record.merged_at);
    return organisation.repository(name).addPullRequest({
      number: record.number,
      author,
      title: record.title,
      body: record.body,
      state: record.state === 'merged' ? 'MERGED' : record.state === 'closed' ? 'CLOSED' : 'OPEN',
      draft: record.state === 'draft',
      additions: record.additions,
      deletions: record.deletions,
      changedFiles: record.changed_files,
      files: record.files,
      commits: record.commits,
      createdAt,
      mergedAt,
      updatedAt: mergedAt ?? createdAt,
    });
  });
}
