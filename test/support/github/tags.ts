import type { World } from './world.ts';

/** A label, or a milestone with its title as `name`. */
export interface Tag {
  /** A renamed tag keeps it, and `number`. */
  readonly id: number;
  readonly number: number;
  name: string;
}

/** A repository's labels or milestones, by name; each is created on first mention. */
export class Tags {
  readonly #world: World;
  readonly #kind: 'label' | 'milestone';
  readonly #byName = new Map<string, Tag>();
  #nextNumber = 1;

  constructor(world: World, kind: 'label' | 'milestone') {
    this.#world = world;
    this.#kind = kind;
  }

  of(name: string): Tag {
    const known = this.#byName.get(name);
    if (known) return known;
    const tag = { id: this.#world.nextId(this.#kind), number: this.#nextNumber++, name };
    this.#byName.set(name, tag);
    return tag;
  }

  rename(from: string, to: string): Tag {
    if (this.#byName.has(to)) throw new Error(`The ${this.#kind} ${to} already exists`);
    const tag = this.delete(from);
    tag.name = to;
    this.#byName.set(to, tag);
    return tag;
  }

  delete(name: string): Tag {
    const tag = this.of(name);
    this.#byName.delete(name);
    return tag;
  }
}
