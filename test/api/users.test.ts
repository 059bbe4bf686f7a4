import { expect, test } from 'vitest';
import { addUser, removeUser, type User } from '../../src/database/users.ts';
import { formatId } from '../../src/ids.ts';
import type { PageBody, UserBody } from '../support/client.ts';
import { createToken } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';

const world = await startWorld();
const { service, client } = world;

async function add(organisationId: string, name: string, photoUrl = 'https://p.example/'): Promise<User> {
  const email = `${encodeURIComponent(name)}-${Math.random()}@acme.example`;
  const user = await addUser(service.database.executor, { organisationId, name, email, photoUrl });
  if (user === undefined) throw new Error(`${email} is taken`);
  return user;
}

test('without a photo a user has the one of the organisation', async () => {
  const { organisation } = world;
  const user = await add(organisation.id, 'Nobody', '');
  const { body } = await client.get<PageBody<UserBody>>('/2025-04/users?per_page=100', world.token);
  expect(body.data.find(({ email }) => email === user.email)?.profile_photo_url).toBe(organisation.photoUrl);
  const account = await client.get<{ data: UserBody }>('/2025-04/account', await createToken(service, user));
  expect(account.body.data.profile_photo_url).toBe(organisation.photoUrl);
  await removeUser(service.database.executor, user);
});

test('the account is the user who holds the token', async () => {
  const bob = await add(world.organisation.id, 'Bob');
  const { body } = await client.get<{ data: UserBody }>('/2025-04/account', await createToken(service, bob));
  const seconds = Math.floor(bob.createdAt.getTime() / 1000);
  expect(body.data).toMatchObject({ id: formatId('usr', bob.id), name: 'Bob', created_at: seconds });
});

test('the token of a removed user gets 401, for the account as for the users', async () => {
  const gone = await add(world.organisation.id, 'Gone');
  const token = await createToken(service, gone);
  expect((await client.get('/2025-04/account', token)).status).toBe(200);
  await removeUser(service.database.executor, gone);
  for (const path of ['/2025-04/account', '/2025-04/users']) {
    expect((await client.get(path, token)).status).toBe(401);
  }
});

test('users sort as people sort names, in any alphabet and case, and equal names by id, forwards and backwards', async () => {
  const names = [
    ...['adam', 'Adam', 'Ádam', 'ADA', 'Zoë', 'Zoe', 'zoé', 'Émile', 'Emil', 'émile', 'Øystein', 'Oz', "O'Neil"],
    ...['Oneil', 'de la Cruz', 'Delacruz', 'Ωmega', 'Яна', '王小明', '李', '', ' ', '10', '9', '\u{1F600}', 'ß', 'ss'],
    ...['Adam', 'Adam', 'a', 'A', 'ä', 'Å', 'å'],
  ];
  const other = await world.newTenant();
  await removeUser(service.database.executor, other.user);
  const users = [];
  for (const name of names) users.push(await add(other.organisation.id, name));
  const token = await createToken(service, users[0] ?? other.user);
  const pages = await client.pages<UserBody>('/2025-04/users?per_page=4', token);
  const last = pages.at(-1);
  const back = await client.pages<UserBody>(last?.links.prev ?? '', token, 'prev');
  expect([...back.toReversed(), last].map(page => page?.data)).toEqual(pages.map(({ data }) => data));
  const listed = pages.flatMap(({ data }) => data);
  const { compare } = new Intl.Collator('und');
  const bytes = (left: string, right: string) => Buffer.compare(Buffer.from(left), Buffer.from(right));
  const expected = users.toSorted((a, b) => compare(a.name, b.name) || bytes(a.name, b.name) || bytes(a.id, b.id));
  expect(listed.map(({ name }) => name)).toEqual(expected.map(({ name }) => name));
  expect(listed.map(({ id }) => id)).toEqual(expected.map(({ id }) => formatId('usr', id)));
});

test('users of another organisation are not listed', async () => {
  const other = await world.newTenant();
  const { body } = await client.get<PageBody<UserBody>>('/2025-04/users', other.token);
  expect(body.data.map(({ id }) => id)).toEqual([formatId('usr', other.user.id)]);
});
