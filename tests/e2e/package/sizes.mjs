// Prints what the files of a folder weigh, raw and gzipped.

import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzip } from '../server.mjs';

const [folder] = process.argv.slice(2);
const line = (raw, gzipped, name) =>
  console.log(`${String(raw).padStart(9)} ${String(gzipped).padStart(9)}  ${name}`);
line('bytes', 'gzipped', folder);
const all = [0, 0];
for (const name of (await readdir(folder)).sort()) {
  const bytes = await readFile(join(folder, name));
  const sizes = [bytes.length, gzip(bytes).length];
  sizes.forEach((size, index) => (all[index] += size));
  line(...sizes, name);
}
line(...all, 'all');
