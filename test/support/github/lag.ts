/**
 * What GraphQL shows of something that changes. GitHub answers it from replicas that lag behind its webhooks, so it
 * shows the state from before the first change that a replica lacks.
 */
export class Lag<State> {
  #unseen: { before: State | undefined; until: number }[] = [];

  /** Call it before a change: `before` stays shown for that many real milliseconds. Undefined: nothing existed. */
  hold(before: State | undefined, milliseconds: number): void {
    this.#unseen.push({ before, until: performance.now() + milliseconds });
  }

  catchUp(): void {
    this.#unseen = [];
  }

  /** @param present its current state */
  shown(present: State): State | undefined {
    if (this.#unseen.length === 0) return present;
    const now = performance.now();
    this.#unseen = this.#unseen.filter(({ until }) => until > now);
    const [first] = this.#unseen;
    return first ? first.before : present;
  }
}
