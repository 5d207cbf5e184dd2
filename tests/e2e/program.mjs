// The page's program as it is published, unpacked.

import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { unpacking } from '../../public/unpack.js';
import { DIST } from './harness.mjs';

async function file(name) {
  const found = (await readdir(DIST)).filter((it) => it.startsWith(name));
  if (found.length !== 1) throw new Error(`${found.length} files are named ${name}`);
  return new Uint8Array(await readFile(join(DIST, found[0])));
}

/** What unpacks, and what is packed. */
export async function packed() {
  const [module, first, second] = await Promise.all(['unpack-', 'first-', 'second-'].map(file));
  return { module: await WebAssembly.compile(module), first, second };
}

/** The bytes that were packed behind others, and in how many pieces they came. */
export function unpack(module, bytes, behind) {
  const turns = unpacking(module, bytes, behind);
  for (let pieces = 0; ; pieces += 1) {
    const turn = turns.next();
    if (turn.done) return { bytes: turn.value, pieces };
  }
}

/** Both halves, unpacked. */
export async function program() {
  const { module, first, second } = await packed();
  const { bytes } = unpack(module, first);
  return { first: bytes, second: unpack(module, second, bytes).bytes };
}
