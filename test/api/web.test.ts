import { afterAll, describe, expect, test } from 'vitest';
import { closing, startReplica } from '../support/service.ts';

// The page needs no database.
const nowhere = 'postgres://nobody@127.0.0.1:1/none';
const service = await startReplica(nowhere);
const { app } = service;
afterAll(() => service.close());

const files = ['/', '/index.html', '/main.js', '/style.css', '/token.js', '/icon.svg'];

describe('the page', () => {
  test('is served with a policy that lets it load nothing from elsewhere but photos', async () => {
    for (const url of files) {
      const { statusCode, headers } = await app.inject({ url });
      expect({ url, statusCode }).toEqual({ url, statusCode: 200 });
      expect(headers['content-security-policy']).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' https:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      );
      expect(headers).toMatchObject({ 'referrer-policy': 'no-referrer', 'x-content-type-options': 'nosniff' });
      const again = await app.inject({ url, headers: { 'if-none-match': String(headers.etag) } });
      expect(again.statusCode).toBe(304);
    }
    const compressed = await app.inject({ url: '/main.js', headers: { 'accept-encoding': 'gzip, br' } });
    expect(compressed.headers['content-encoding']).toBe('br');
    expect(compressed.rawPayload.length).toBeLessThan(120_000);
  });

  test('is served whole to a client that asks for a range', async () => {
    const { statusCode } = await app.inject({ url: '/main.js', headers: { range: 'bytes=9999999-' } });
    expect(statusCode).toBe(200);
  });

  test('is not sent to a client that wants another release of it', async () => {
    const { statusCode, body } = await app.inject({ url: '/main.js', headers: { 'if-match': '"other"' } });
    expect([statusCode, JSON.parse(body)]).toEqual([412, { message: 'The file is another one.' }]);
  });

  test('has no inline scripts or styles, which its policy forbids', async () => {
    const { payload } = await app.inject({ url: '/' });
    expect(payload).not.toMatch(/<script(?![^>]* src=)|<style| style=| on\w+=/);
  });

  const above = ['/%2e%2e/package.json', '/..%2fpackage.json', '/..%5cpackage.json'];
  test.each([...above, '/%00', '/main.js%00', '/main.js.map'])('%s leads to no other file', async path => {
    const { statusCode, payload } = await app.inject({ url: path });
    expect(statusCode).toBe(404);
    expect(JSON.parse(payload)).toHaveProperty('message');
  });

  test('takes no other methods than GET and HEAD', async () => {
    const { statusCode, headers } = await app.inject({ method: 'POST', url: '/' });
    expect({ statusCode, allow: headers.allow }).toEqual({ statusCode: 405, allow: 'GET, HEAD' });
  });

  test('is not served with WEB=false', async () => {
    const without = closing(await startReplica(nowhere, { WEB: 'false' }));
    for (const url of files) expect((await without.app.inject({ url })).statusCode).toBe(404);
  });
});
