/** Replaces what PostgreSQL can't store, NUL and lone surrogates, by U+FFFD: stored and fetched texts compare equal. */
export const storable = (text: string) => text.replaceAll('\0', '\uFFFD').replace(/\p{Surrogate}/gu, '\uFFFD');
