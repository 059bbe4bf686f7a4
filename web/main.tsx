import { render } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { useData } from './api.ts';
import { Button, Photo } from './elements.tsx';
import { Title } from './loaded.tsx';
import { addressOf, type Route, useRoute } from './route.ts';
import { end, session } from './session.ts';
import { SignIn } from './sign-in.tsx';
import { HealthView } from './views/health.tsx';
import { MemberView } from './views/member.tsx';
import { PullRequestView } from './views/pull-request.tsx';
import { PullRequestsView } from './views/pull-requests.tsx';
import { RulesView } from './views/rules.tsx';
import { StandingsView } from './views/standings.tsx';
import { TryRulesView } from './views/try-rules.tsx';

interface View {
  title: string;
  /** In the navigation, for tokens with this scope. */
  scope?: string;
  show: Show;
  /** If the address has an id. */
  showOne?: Show;
}

type Show = (props: { route: Route; may: (scope: string) => boolean }) => preact.VNode;

const views: Record<string, View> = {
  standings: { title: 'Standings', scope: 'read', show: StandingsView },
  'pull-requests': { title: 'Pull requests', scope: 'read', show: PullRequestsView, showOne: PullRequestView },
  members: { title: 'Members', show: StandingsView, showOne: MemberView },
  rules: { title: 'Rules', scope: 'read', show: RulesView },
  'try-rules': { title: 'Try rules', scope: 'rules:read', show: TryRulesView },
  health: { title: 'Health', scope: 'sync', show: HealthView },
};

function Layout() {
  const account = useData('/2026-12/account', {}).data?.data;
  const scopes: readonly string[] = account?.scopes ?? ['read'];
  const may = (scope: string) => scopes.includes(scope);
  const route = useRoute();
  // An address may name what every object has.
  const view = Object.hasOwn(views, route.view) ? views[route.view] : undefined;
  const Shown = (route.id !== undefined && view?.showOne) || view?.show;
  const [since, until] = ['since', 'until'].map(name => route.query.get(name) ?? undefined);
  const main = useRef<HTMLElement>(null);
  const place = `${route.view}/${route.id ?? ''}`;
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current) main.current?.focus();
    isFirst.current = false;
  }, [place]);
  return (
    <>
      <header>
        <Button class="skip" text="Skip to content" onClick={() => main.current?.focus()} />
        <a href={addressOf('standings')}>
          <img src="icon.svg" alt="" width="24" height="24" />
          <strong>pullscore</strong>
        </a>
        <nav aria-label="Views">
          {Object.entries(views).map(
            ([name, { title, scope }]) =>
              scope !== undefined &&
              may(scope) && (
                <a
                  key={name}
                  href={addressOf(name, undefined, { since, until })}
                  aria-current={name === route.view ? (route.id === undefined ? 'page' : 'true') : undefined}
                >
                  {title}
                </a>
              ),
          )}
        </nav>
        <Photo address={account?.profile_photo_url ?? ''} size={28} />
        <span>{account?.name}</span>
        <Button text="Sign out" onClick={() => end()} />
      </header>
      <main ref={main} tabIndex={-1} key={place}>
        {Shown === undefined ? (
          <>
            <Title>Not found</Title>
            <p>
              There is no such view. <a href={addressOf('standings')}>See the standings.</a>
            </p>
          </>
        ) : (
          <Shown route={route} may={may} />
        )}
      </main>
    </>
  );
}

session.onChange = () => render(session.token === null ? <SignIn /> : <Layout />, document.body);
session.onChange();
