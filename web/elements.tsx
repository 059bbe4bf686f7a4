import type { ComponentChildren, ComponentProps } from 'preact';
import { webAddress } from '../src/text/web-address.ts';
import { type Loading, type Problem, refresh, type Schemas } from './api.ts';
import { formatNumber } from './format.ts';
import { addressOf } from './route.ts';

const refuse = (event: Event) => event.preventDefault();

/** Sends no form unless its type is `submit`. Disabled, it keeps the focus of the one who has just pressed it. */
export const Button = ({ text, disabled, ...attributes }: { text: string } & ComponentProps<'button'>) => (
  <button type="button" {...attributes} {...(disabled && { 'aria-disabled': true, onClick: refuse })}>
    {text}
  </button>
);

/** The heading of a view, also in the browser's list of tabs and places. */
export function Title({ children, photo = '' }: { children: string; photo?: string }) {
  document.title = `${children} · pullscore`;
  return (
    <h1>
      <Photo address={photo} size={40} /> {children}
    </h1>
  );
}

/** Only its text, if the address is not one of the web. */
export function WebLink({ address, children }: { address: string; children: ComponentChildren }) {
  const href = webAddress(address);
  return href ? <a href={href}>{children}</a> : <span>{children}</span>;
}

/** Nothing, if the address is not one of the web or has no picture: without a width, it takes no room then. */
export function Photo({ address, size }: { address: string; size: number }) {
  const source = webAddress(address);
  return source ? <img class="photo" src={source} alt="" height={size} /> : null;
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
    <small>{`${repository} #${number}`}</small>
  </>
);

export function Failure({ problem, retry }: { problem: Problem; retry?: () => void }) {
  const { message, request_id: requestId, problems } = problem;
  const texts = problems?.map(({ line, message }) => `Line ${line}: ${message}`) ?? [message];
  return (
    <div class="notice bad" role="alert">
      <p>{texts.join('\n')}</p>
      <div class="toolbar">
        {requestId && <small>Request id: {requestId}</small>}
        {retry && <Button text="Try again" onClick={retry} />}
      </div>
    </div>
  );
}

interface LoadedProps<Data> {
  of: Loading<Data>;
  /** Of the view, as long as the content that has its own is not there. */
  title?: string;
  /** The heading of a section, if it is one. */
  section?: string;
  children: (data: Data) => ComponentChildren;
}

/** Shows what is loaded, or why it is not there yet. */
export function Loaded<Data>({ of, title, section, children }: LoadedProps<Data>) {
  const { data, problem, waiting, isLoading } = of;
  const Frame = section ? 'section' : 'div';
  return (
    <Frame aria-busy={isLoading} aria-label={section}>
      {title && data === undefined && <Title>{title}</Title>}
      {section && <h2>{section}</h2>}
      <output class={waiting === undefined && data !== undefined ? 'hidden' : ''}>
        {isLoading && (waiting ?? 'Loading…')}
      </output>
      {!isLoading && problem && <Failure problem={problem} retry={refresh} />}
      {data !== undefined && <div>{children(data)}</div>}
    </Frame>
  );
}

export const Outdated = ({ count }: { count: number }) =>
  count === 0 ? null : (
    <p class="notice" role="status">
      {formatNumber(count)} scores have yet to be recalculated: what is shown here will change.
    </p>
  );
