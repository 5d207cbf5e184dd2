// What the tests of the npm package share: where it is built, the examples of its README, and folders to run them in.

import { mkdtemp, readFile, rm, symlink, mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of the built package (`cargo xtask js`). */
export const PACKAGE =
  process.env.KV_PACKAGE ?? fileURLToPath(new URL('../../../target/js/kv-explorer', import.meta.url));

/** The first block of this language in the package's README. */
export async function block(language) {
  const readme = await readFile(join(PACKAGE, 'README.md'), 'utf8');
  const found = readme.match(new RegExp('^```' + language + '\\n(.*?)^```$', 'ms'));
  if (!found) throw new Error(`the README has no block of ${language}`);
  return found[1];
}

/** Cases, as text, each beside what kvx answers to it. */
export async function sample() {
  const path = process.env.KV_SAMPLE ?? join(PACKAGE, '../sample.jsonl');
  const lines = (await readFile(path, 'utf8')).trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line));
}

/** Runs `test(folder)` in a folder where the package is installed as `place`. */
export async function withInstalled(place, test) {
  const folder = await mkdtemp(join(tmpdir(), 'kv-package-'));
  try {
    await mkdir(join(folder, place, '..'), { recursive: true });
    await symlink(PACKAGE, join(folder, place));
    return await test(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}
