import { useState } from 'preact/hooks';

/** @param reason why one has to sign in again, if it was not one's own wish */
export function SignIn({ reason, begin }: { reason: string | undefined; begin: (token: string) => void }) {
  const [token, setToken] = useState('');
  const submit = (event: Event) => {
    event.preventDefault();
    begin(token.trim());
  };
  return (
    <main class="sign-in">
      <img src="icon.svg" alt="" width="48" height="48" />
      <h1>pullscore</h1>
      <p>Scores of your organisation's pull requests, and why they are what they are.</p>
      {reason !== undefined && (
        <p class="notice bad" role="alert">
          {reason}
        </p>
      )}
      <form onSubmit={submit}>
        <label>
          Access token
          <input
            type="password"
            name="token"
            autoComplete="off"
            placeholder="ps_…"
            required
            pattern="\s*\S+\s*"
            title="A token has no spaces within"
            value={token}
            onInput={({ currentTarget }) => setToken(currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary">
          Sign in
        </button>
      </form>
      <p>
        <small>
          It stays in this tab and is sent to this service only. An operator creates one with{' '}
          <code>pullscore token create</code>.
        </small>
      </p>
    </main>
  );
}
