import { Type } from '@sinclair/typebox';
import { type Scope, scopes } from '../../access-token.ts';
import type { Caller } from '../../database/access-tokens.ts';
import type { Executor } from '../../database/client.ts';
import { getOrganisation } from '../../database/organisations.ts';
import { User } from '../users.ts';
import { Nullable, namedObject, stringEnum } from '../validation.ts';

export const Account = namedObject('Account', {
  ...Type.Omit(User, ['email']).properties,
  organisation: Type.String({ description: "The organisation's login" }),
  scopes: Type.Array(stringEnum([...scopes], {}), { description: 'What the token allows' }),
  expires_at: Nullable(Type.Integer(), 'When the token ends, Unix seconds; null if it does not'),
});

export const describeToken = async (executor: Executor, caller: Caller) => ({
  organisation: (await getOrganisation(executor, caller.organisationId)).login,
  scopes: caller.scopes as Scope[],
  expires_at: caller.endsAt,
});
