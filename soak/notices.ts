import type { WebhookEvent } from '../test/support/github/events.ts';
import type { Organisation } from '../test/support/github/organisation.ts';
import type { Repository } from '../test/support/github/repository.ts';

/** What a small webhook is about. */
type Subject = `repository ${number}`;

/** How it says that is: a repository's `owner/name`. */
interface Notice {
  subject: Subject;
  state: string;
}

/**
 * What small webhooks tell one organisation: what a repository is called. The service takes it over as it comes, also
 * when it comes late; what it reads on GitHub later is the truth. So what was told last must be known for as long as it
 * has been so on GitHub without a break.
 */
export interface Notices {
  /** After anything happened on GitHub: what was told of anything that is otherwise now counts no longer. */
  record(repositories: Iterable<Repository>): void;
  /** @param acknowledged false where nobody knows whether it was taken over */
  take(event: WebhookEvent, acknowledged: boolean): void;
  /** How it is on GitHub was told, and must be known here. */
  isTold(subject: Subject): boolean;
}

const none = 'not here';

export function createNotices(organisation: Organisation): Notices {
  /** How everything is on GitHub. */
  const states = new Map<Subject, string>();
  const told = new Map<Subject, string>();

  function see(subject: Subject, state: string): void {
    if (states.get(subject) === state) return;
    states.set(subject, state);
    told.delete(subject);
  }

  return {
    record(repositories) {
      for (const { id, fullName, organisation: owner } of repositories) {
        see(`repository ${id}`, owner === organisation ? fullName : none);
      }
    },
    take(event, acknowledged) {
      const notice = noticeOf(event);
      if (notice === undefined) return;
      const { subject, state } = notice;
      if (acknowledged) told.set(subject, state);
      else if (told.get(subject) !== state) told.delete(subject);
    },
    isTold: subject => told.has(subject) && told.get(subject) === states.get(subject),
  };
}

function noticeOf({ event, action = '', payload }: WebhookEvent): Notice | undefined {
  const { repository } = payload as { repository?: { id: number; full_name: string } };
  if (event === 'repository' && repository !== undefined && /^(renamed|transferred)$/.test(action)) {
    return { subject: `repository ${repository.id}`, state: repository.full_name };
  }
  return undefined;
}
