import { render, type VNode } from 'preact';
import { begin, end, session, useData } from './api.ts';
import { dark } from './chart.tsx';
import { Button, Failure, Photo, Title } from './elements.tsx';
import { PeriodPicker, takeField } from './filters.tsx';
import { addressOf, route } from './route.ts';
import { HealthView } from './views/health.tsx';
import { MemberView } from './views/member.tsx';
import { PullRequestView } from './views/pull-request.tsx';
import { PullRequestList } from './views/pull-requests.tsx';
import { RulesView } from './views/rules.tsx';
import { StandingsView } from './views/standings.tsx';
import { type Trial, TryRulesView, useTrial } from './views/try-rules.tsx';

interface View {
  title: string;
  /** In the navigation, for tokens with this scope. */
  scope?: string;
  /** What it shows is of a period. */
  hasPeriod?: true;
  Show: (props: { trial: Trial }) => VNode;
  /** If the address has an id. It has its own title and choice of a period. */
  ShowOne?: (props: { id: string; may: (scope: string) => boolean }) => VNode;
}

const ofPeriod = { scope: 'read', hasPeriod: true } as const;
const views = new Map<string, View>([
  ['standings', { title: 'Standings', ...ofPeriod, Show: StandingsView }],
  ['members', { title: 'Standings', hasPeriod: true, Show: StandingsView, ShowOne: MemberView }],
  ['pull-requests', { title: 'Pull requests', ...ofPeriod, Show: () => <PullRequestList />, ShowOne: PullRequestView }],
  ['rules', { title: 'Rules', ...ofPeriod, Show: RulesView }],
  ['try-rules', { title: 'Try rules', scope: 'rules:read', Show: TryRulesView }],
  ['health', { title: 'Health', scope: 'sync', Show: HealthView }],
]);

const NotFound = () => <Failure problem={{ message: 'There is no such view.' }} />;

const focusContent = () => document.querySelector('main')?.focus();

function Layout() {
  const { data, problem } = useData('/2026-12/account', {});
  const account = data?.data;
  // To read the account, a token needs `read`.
  const may = (scope: string) => problem !== undefined || (account?.scopes ?? ['read']).some(given => given === scope);
  const trial = useTrial();
  const { view, id, query } = route();
  const { since, until } = query;
  const currentOf = (name: string) => (name === view ? (id === undefined ? 'page' : 'true') : undefined);
  const { title, hasPeriod, Show, ShowOne }: View = views.get(view) ?? { title: 'Not found', Show: NotFound };
  return (
    <>
      <header>
        <Button class="hidden" text="Skip to content" onClick={focusContent} />
        <a href={addressOf('standings')}>
          <img src="icon.svg" alt="" width="24" height="24" />
          <strong>pullscore</strong>
        </a>
        <nav aria-label="Views">
          {[...views]
            .filter(([, { scope }]) => scope && may(scope))
            .map(([name, { title }]) => (
              <a key={name} href={addressOf(name, undefined, { since, until })} aria-current={currentOf(name)}>
                {title}
              </a>
            ))}
        </nav>
        <Photo address={account?.profile_photo_url ?? ''} size={28} />
        <span>{account?.name}</span>
        <Button text="Sign out" onClick={() => end()} />
      </header>
      <main tabIndex={-1} key={`${view}/${id}`} onChange={takeField}>
        {ShowOne && id !== undefined ? (
          <ShowOne id={id} may={may} />
        ) : (
          <>
            <Title>{title}</Title>
            {hasPeriod && <PeriodPicker />}
            <Show trial={trial} />
          </>
        )}
      </main>
    </>
  );
}

const SignIn = () => (
  <main class="sign-in" tabIndex={-1}>
    <img src="icon.svg" alt="" width="48" height="48" />
    <h1>pullscore</h1>
    <p>Scores of your organisation's pull requests, and why they are what they are.</p>
    {session.farewell && <Failure problem={{ message: session.farewell }} />}
    <form
      class="toolbar"
      onSubmit={event => {
        event.preventDefault();
        begin(String(new FormData(event.currentTarget).get('token')).trim());
      }}
    >
      <label>
        Access token
        <input
          type="password"
          name="token"
          autoComplete="off"
          placeholder="ps_…"
          required
          pattern="\s*\w+\s*"
          title="Letters, digits and _"
        />
      </label>
      <Button type="submit" text="Sign in" />
    </form>
    <small>
      It stays in this tab and is sent to this service only. An operator creates one with{' '}
      <code>pullscore token create</code>.
    </small>
  </main>
);

function show(): void {
  if (session.token === null) document.title = 'pullscore';
  render(session.token === null ? <SignIn /> : <Layout />, document.body);
}
session.onChange = show;

/** What had the focus last. If the page removes it, the focus goes to the view. */
let focused: Element | undefined;
addEventListener('focusin', ({ target }) => {
  focused = target as Element;
});
new MutationObserver(() => {
  if (focused?.isConnected === false && document.activeElement === document.body) focusContent();
}).observe(document.body, { childList: true, subtree: true });
addEventListener('hashchange', ({ oldURL, newURL }) => {
  // `token.ts` takes it when the page is loaded.
  if (location.hash.startsWith('#token=')) return location.reload();
  show();
  // At another place, and not with other parameters of the same one.
  if (oldURL.split('?')[0] !== newURL.split('?')[0]) focusContent();
});
dark.addEventListener('change', show);
show();
