import type { Organisation } from '../database/organisations.ts';
import { badRequest } from '../errors.ts';
import { compileGlob } from '../scoring/language/glob.ts';
import { PatternError } from '../scoring/language/pattern.ts';

/** All of them are tried on each repository of a list. */
export const maxGlobs = 100;

/** What GitHub says of a repository. */
interface Candidate {
  /** `owner/name` */
  name: string;
  isArchived: boolean;
  isFork: boolean;
}

export const reasonOfGlob = (glob: string) => `its name matches ${glob}`;

/** @returns a function that says why the organisation ignores a repository; undefined if it tracks it */
export function createIgnore({
  ignoredGlobs,
  ignoresArchived,
  ignoresForks,
}: Pick<Organisation, 'ignoredGlobs' | 'ignoresArchived' | 'ignoresForks'>) {
  const patterns = ignoredGlobs.map(glob => ({ glob, pattern: compileGlob(glob) }));
  return ({ name, isArchived, isFork }: Candidate): string | undefined => {
    const bareName = name.slice(name.indexOf('/') + 1).toLowerCase();
    const matching = patterns.find(({ pattern }) => pattern.test(bareName));
    if (matching !== undefined) return reasonOfGlob(matching.glob);
    if (ignoresArchived && isArchived) return 'it is archived';
    return ignoresForks && isFork ? 'it is a fork' : undefined;
  };
}

/** Tells apart the repositories that the organisation tracks and those that it ignores. */
export function separateIgnored<Repository extends Candidate>(
  organisation: Organisation,
  found: readonly Repository[],
) {
  const whyIgnored = createIgnore(organisation);
  const tracked: Repository[] = [];
  const ignored: (Repository & { ignoredBecause: string })[] = [];
  for (const repository of found) {
    const ignoredBecause = whyIgnored(repository);
    if (ignoredBecause === undefined) tracked.push(repository);
    else ignored.push({ ...repository, ignoredBecause });
  }
  return { tracked, ignored };
}

/**
 * A glob over names of repositories, with or without the owner, as it is stored: without the owner and in lower case,
 * because GitHub's names are case-insensitive.
 *
 * @throws ServiceError `bad_request`
 */
export function parseGlob(login: string, text: string): string {
  const owner = `${login}/`.toLowerCase();
  const lower = text.toLowerCase();
  const glob = lower.startsWith(owner) ? lower.slice(owner.length) : lower;
  // GitHub's names have up to 100 letters, digits, dots, hyphens and underscores.
  if (!/^[\w.*?,{}[\]^!-]{1,200}$/.test(glob)) {
    throw badRequest(`"${text}" matches no name of a repository.`, 'Write it as sandbox-*.');
  }
  try {
    compileGlob(glob);
  } catch (error) {
    if (!(error instanceof PatternError)) throw error;
    // What follows is how to write it in a rules file.
    throw badRequest(
      `"${text}" is not a valid glob: it ${error.message.replace(/;.*/s, '')}.`,
      'Write it as sandbox-*.',
    );
  }
  return glob;
}
