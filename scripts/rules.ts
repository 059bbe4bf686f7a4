/** Updates rules.schema.json from the rule language and docs/rules.md: npm run rules */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { RulesFile } from './rules-schema.ts';

writeFileSync('rules.schema.json', JSON.stringify(RulesFile, null, 2));
execFileSync('npx', ['biome', 'format', '--write', 'rules.schema.json'], { stdio: 'ignore' });
