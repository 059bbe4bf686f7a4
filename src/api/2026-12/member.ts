import { Type } from '@sinclair/typebox';
import { memberLinks, type RepresentMember, representMember } from '../members.ts';
import { closedObject, Nullable, namedObject } from '../validation.ts';

export const Member = namedObject('Member', {
  id: Type.String({ description: 'Identifier of the member' }),
  name: Type.String({ description: 'Name' }),
  profile_photo_url: Type.String({ description: 'URL of the profile photo' }),
  created_at: Type.Integer({ description: 'When this service first knew the member, Unix seconds' }),
  login: Type.String({ description: 'Login on GitHub' }),
  left_at: Nullable(
    Type.Integer(),
    'When the member was seen to have left, Unix seconds; null while they are a member',
  ),
  links: closedObject({
    pull_requests: Type.String({ format: 'uri', description: "Reference to the member's pull requests" }),
  }),
});

export const represent: RepresentMember = (row, base) =>
  representMember(row, {
    login: row.login,
    left_at: row.leftAt === null ? null : Number(row.leftAt),
    links: memberLinks(row, base),
  });
