/** A service that will be killed while its scorer is in a job that never ends. Its argument is the database's address. */
import { pino } from 'pino';
import { connectDatabase } from '../../src/database/client.ts';
import type { Facts } from '../../src/scoring/facts.ts';
import { hostileScorer } from './scorer.ts';

const log = pino({ level: 'silent' });
const scorer = hostileScorer(connectDatabase(process.argv[2] ?? '', log), log);
void scorer.run('score', { organisationId: 'a', version: 1, facts: [{ title: 'endless' } as Facts] });
