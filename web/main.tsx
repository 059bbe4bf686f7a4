import { render } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { createApi, type Session, SessionContext, useData } from './api.tsx';
import { Photo } from './photo.tsx';
import { addressOf, type Route, useRoute } from './route.ts';
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
  show: (props: { route: Route }) => preact.VNode;
}

const views: Record<string, View> = {
  standings: { title: 'Standings', scope: 'read', show: StandingsView },
  'pull-requests': { title: 'Pull requests', scope: 'read', show: PullRequestsView },
  members: { title: 'Member', show: MemberView },
  'pull-request': { title: 'Pull request', show: PullRequestView },
  rules: { title: 'Rules', scope: 'read', show: RulesView },
  'try-rules': { title: 'Try rules', scope: 'rules:read', show: TryRulesView },
  health: { title: 'Health', scope: 'sync', show: HealthView },
};

function App() {
  const [token, setToken] = useState(() => sessionStorage.getItem('token'));
  const [farewell, setFarewell] = useState<string>();
  if (token === null) {
    const begin = (given: string) => {
      sessionStorage.setItem('token', given);
      setFarewell(undefined);
      setToken(given);
    };
    return <SignIn reason={farewell} begin={begin} />;
  }
  const end = (reason?: string) => {
    sessionStorage.removeItem('token');
    setFarewell(reason);
    setToken(null);
  };
  return <SignedIn token={token} end={end} />;
}

function SignedIn({ token, end }: { token: string; end: Session['end'] }) {
  const api = useMemo(() => createApi(token), [token]);
  const base: Session = { api, end, account: undefined, may: scope => scope === 'read' };
  return (
    <SessionContext.Provider value={base}>
      <WithAccount base={base} />
    </SessionContext.Provider>
  );
}

function WithAccount({ base }: { base: Session }) {
  const { data } = useData('account', (api, signal) => api.GET('/2026-12/account', { signal }));
  const account = data?.data;
  const scopes: readonly string[] = account?.scopes ?? ['read'];
  const session: Session = { ...base, account, may: scope => scopes.includes(scope) };
  return (
    <SessionContext.Provider value={session}>
      <Layout session={session} />
    </SessionContext.Provider>
  );
}

function Layout({ session: { account, may, end } }: { session: Session }) {
  const route = useRoute();
  // An address may name what every object has.
  const view = Object.hasOwn(views, route.view) ? views[route.view] : undefined;
  const title = view?.title ?? 'Not found';
  const main = useRef<HTMLElement>(null);
  const place = `${route.view}/${route.id ?? ''}`;
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = `${title} · pullscore`;
    if (!isFirst.current) main.current?.focus();
    isFirst.current = false;
  }, [place]);
  return (
    <>
      <header>
        <a
          class="skip"
          href={location.hash}
          onClick={event => {
            event.preventDefault();
            main.current?.focus();
          }}
        >
          Skip to content
        </a>
        <a class="brand" href={addressOf('standings')}>
          <img src="icon.svg" alt="" width="24" height="24" />
          pullscore
        </a>
        <nav aria-label="Views">
          {Object.entries(views).map(
            ([name, { title, scope }]) =>
              scope !== undefined &&
              may(scope) && (
                <a key={name} href={addressOf(name)} aria-current={name === route.view ? 'page' : undefined}>
                  {title}
                </a>
              ),
          )}
        </nav>
        <div class="account">
          {account !== undefined && (
            <>
              <Photo address={account.profile_photo_url} size={28} />
              <span dir="auto">{account.name}</span>
            </>
          )}
          <button type="button" onClick={() => end()}>
            Sign out
          </button>
        </div>
      </header>
      <main ref={main} tabIndex={-1} key={place}>
        {view === undefined ? (
          <>
            <h1>Not found</h1>
            <p>
              There is no such view. <a href={addressOf('standings')}>See the standings.</a>
            </p>
          </>
        ) : (
          <view.show route={route} />
        )}
      </main>
    </>
  );
}

render(<App />, document.body);
