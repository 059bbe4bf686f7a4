import type { ComponentChildren, ComponentProps } from 'preact';
import type { Schemas } from './api.ts';
import { addressOf } from './route.ts';

/** Sends no form unless its type is `submit`. */
export const Button = ({ text, ...attributes }: { text: string } & ComponentProps<'button'>) => (
  <button type="button" {...attributes}>
    {text}
  </button>
);

/** Undefined for anything but a page of the web, such as `javascript:`. */
function webAddress(text: string): string | undefined {
  const url = URL.parse(text);
  return url?.protocol === 'https:' || url?.protocol === 'http:' ? url.href : undefined;
}

/** Only its text, if the address is not one of the web. */
export function WebLink({ address, children }: { address: string; children: ComponentChildren }) {
  const href = webAddress(address);
  return href === undefined ? (
    <span>{children}</span>
  ) : (
    <a href={href} rel="noreferrer">
      {children}
    </a>
  );
}

/** Nothing, if the address is not one of the web or has no picture. */
export function Photo({ address, size }: { address: string; size: number }) {
  const source = webAddress(address);
  if (source === undefined) return null;
  const hide = (event: preact.TargetedEvent<HTMLImageElement>) => event.currentTarget.toggleAttribute('hidden', true);
  return <img class="photo" src={source} alt="" width={size} height={size} loading="lazy" onError={hide} />;
}

/** Only their name, if they are no member. */
export const MemberLink = ({ id, name }: { id: string | null | undefined; name: string | null }) =>
  id ? <a href={addressOf('members', id)}>{name || 'unknown'}</a> : <span>{name || 'unknown'}</span>;

export const AuthorLink = ({ of: { author, links } }: { of: Schemas['PullRequest'] }) => (
  <MemberLink id={links.member.split('/').pop()} name={author} />
);

type Named = Pick<Schemas['PullRequest'], 'id' | 'title' | 'repository' | 'number'>;

export const PullRequestLink = ({ of: { id, title, repository, number } }: { of: Named }) => (
  <>
    <a href={addressOf('pull-requests', id)}>{title || 'Without a title'}</a>{' '}
    <small>
      {repository} #{number}
    </small>
  </>
);
