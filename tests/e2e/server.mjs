// Serves the built page the way a plain static host does: from a sub-path, gzipped, and nothing else.

import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { gzipSync } from 'node:zlib';

export const BASE = '/tools/kv/';

const TYPES = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.jsonl': 'application/jsonl',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
  '.webmanifest': 'application/manifest+json',
};

/** The gzipped size that a request for these bytes costs. */
export function gzip(bytes) {
  return gzipSync(bytes, { level: 9 });
}

/**
 * Starts a server for `folder` on a free port of localhost.
 * `served` lists each answer: path below BASE, status and gzipped bytes. Files whose names begin as one of `damaged` are sent
 * so once, and browsers are told to keep them for good.
 */
export async function serve(folder) {
  const served = [];
  const damaged = [];
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    const answer = (status, headers, body) => {
      served.push({ path: pathname, status, bytes: body.length });
      response.writeHead(status, headers).end(body);
    };
    if (!pathname.startsWith(BASE)) {
      return answer(404, {}, 'outside the page’s sub-path');
    }
    const name = normalize(decodeURIComponent(pathname.slice(BASE.length)) || 'index.html');
    try {
      if (name.startsWith('..')) throw new Error('outside the folder');
      const bytes = await readFile(join(folder, name));
      const place = damaged.findIndex((start) => name.startsWith(start));
      if (place >= 0) {
        damaged.splice(place, 1);
        bytes[bytes.length >> 1] ^= 1;
      }
      const type = TYPES[extname(name)] ?? 'application/octet-stream';
      const kept = place >= 0 ? 'public, max-age=31536000, immutable' : 'no-store';
      answer(200, { 'content-type': type, 'content-encoding': 'gzip', 'cache-control': kept }, gzip(bytes));
    } catch {
      answer(404, {}, 'not found');
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${server.address().port}`;
  return {
    origin,
    url: origin + BASE,
    served,
    damaged,
    close: () => new Promise((resolve) => {
      server.closeAllConnections();
      server.close(resolve);
    }),
  };
}
