import { Type } from '@sinclair/typebox';
import { MemberLinks, memberFields, memberLinks, type RepresentMember, representMember } from '../members.ts';
import { Nullable, namedObject } from '../validation.ts';

export const Member = namedObject('Member', {
  ...memberFields,
  login: Type.String({ description: 'Login on GitHub' }),
  left_at: Nullable(
    Type.Integer(),
    'When the member was seen to have left, Unix seconds; null while they are a member',
  ),
  links: MemberLinks,
});

export const represent: RepresentMember = (row, base) =>
  representMember(row, {
    login: row.login,
    left_at: row.leftAt === null ? null : Number(row.leftAt),
    links: memberLinks(row, base),
  });
