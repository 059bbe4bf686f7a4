/** Updates docs/rules.md and rules.schema.json from the rule language: npm run rules */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { renderRulesPage } from './rules-page.ts';
import { RulesFile } from './rules-schema.ts';

writeFileSync('docs/rules.md', renderRulesPage(readFileSync('docs/rules.md', 'utf8')));
writeFileSync('rules.schema.json', JSON.stringify(RulesFile, null, 2));
execFileSync('npx', ['biome', 'format', '--write', 'rules.schema.json'], { stdio: 'ignore' });
