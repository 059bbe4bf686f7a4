/**
 * A service that will be killed while its scorer is in a job that never ends. Its arguments are the database's address,
 * and what the processes of the scorer run.
 */
import { pino } from 'pino';
import { connectDatabase } from '../../src/database/client.ts';
import { createScorer } from '../../src/scorer/scorer.ts';
import type { Facts } from '../../src/scoring/facts.ts';

const log = pino({ level: 'silent' });
const [, , url = '', script] = process.argv;
const scorer = createScorer(connectDatabase(url, log), log, { environment: {}, script });
void scorer.run('score', { organisationId: 'a', version: 1, facts: [{ title: 'endless' } as Facts] });
