/** Who uses this tab, and how often they asked to see everything anew. `main.tsx` renders the page when it changes. */
export const session = {
  token: sessionStorage.getItem('token'),
  /** Why one has to sign in again, if it was not one's own wish. */
  farewell: '',
  /** With another one, all that is shown is asked for again. */
  round: 0,
  onChange: () => {},
};

function change(changes: Partial<typeof session>): void {
  Object.assign(session, changes);
  session.onChange();
}

export function begin(token: string): void {
  sessionStorage.setItem('token', token);
  change({ token });
}

export function end(farewell = ''): void {
  sessionStorage.removeItem('token');
  change({ token: null, farewell });
}

export const refresh = () => change({ round: session.round + 1 });
