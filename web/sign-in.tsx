import { Button } from './elements.tsx';
import { begin, session } from './session.ts';

export const SignIn = () => (
  <main class="sign-in">
    <img src="icon.svg" alt="" width="48" height="48" />
    <h1>pullscore</h1>
    <p>Scores of your organisation's pull requests, and why they are what they are.</p>
    {session.farewell && (
      <p class="notice bad" role="alert">
        {session.farewell}
      </p>
    )}
    <form
      class="toolbar"
      onSubmit={event => {
        event.preventDefault();
        begin(String(new FormData(event.currentTarget).get('token')).trim());
      }}
    >
      <label>
        Access token
        <input type="password" name="token" autoComplete="off" placeholder="ps_…" required pattern="\s*\w+\s*" />
      </label>
      <Button type="submit" text="Sign in" />
    </form>
    <small>
      It stays in this tab and is sent to this service only. An operator creates one with{' '}
      <code>pullscore token create</code>.
    </small>
  </main>
);
