/** A process that joins the embedded database of the home given, and stays until it gets a line. */
import { joinEmbeddedDatabase } from '../../src/database/embedded-server.ts';

const database = await joinEmbeddedDatabase({ home: process.argv[2] ?? '' });
process.stdout.write(`${JSON.stringify(database)}\n`);
process.stdin.once('data', () => database.leave().then(() => process.exit()));
