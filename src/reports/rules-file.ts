import { badRequest } from '../errors.ts';
import type { ResultOf, Scorer } from '../scorer/jobs.ts';

/** More than 200 rules of maximum size need. */
export const maxFileBytes = 2_000_000;

/**
 * Checks a file where it can disturb nobody.
 *
 * @throws ServiceError `bad_request` that says the first problem, and has all
 */
export async function checkFile(
  scorer: Scorer,
  organisationId: string,
  file: Buffer,
  signal: AbortSignal,
): Promise<ResultOf<'check'>> {
  const checked = await scorer.run('check', { organisationId, file: file.toString('latin1') }, { signal });
  const { problems } = checked;
  const [first] = problems;
  if (first === undefined) return checked;
  throw badRequest(
    `Line ${first.line}: ${first.message.replace(/[^.?]$/, '$&.')}`,
    problems.length > 1 ? `The file has ${problems.length} problems.` : undefined,
    { problems },
  );
}
