// The types hold: of the README's example, of results, and against what is wrong.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { block, sample, withInstalled } from './package.mjs';

const TSC = fileURLToPath(new URL('../node_modules/.bin/tsc', import.meta.url));
const OPTIONS = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noEmit: true,
  module: 'nodenext',
  target: 'es2022',
  lib: ['es2022', 'dom'],
  types: [],
};
/** A result of so many is checked: the compiler takes its time over long literals. */
const EVERY = 6;

const MISUSE = `
import { diff, matrix, parseCommand, resolve, type Result } from 'kv-explorer';
import init, { resolve as later } from 'kv-explorer/web';
import { gpus } from 'kv-explorer/page';

// @ts-expect-error no GPU
resolve({ model: 'Qwen/Qwen3-8B' });
// @ts-expect-error a flag of another type
resolve({ gpu: 'h200', args: { max_model_len: true } });
// @ts-expect-error no such key
resolve({ gpu: 'h200', modle: 'Qwen/Qwen3-8B' });
// @ts-expect-error no such release
diff({ model: 'Qwen/Qwen3-8B' }, '0.1.0', '0.33.0');
const result: Result = resolve({ gpu: { cc: [9, 0] }, model: 'Qwen/Qwen3-8B' });
// @ts-expect-error only a result that is not ok has an error
result.error;
if (!result.ok) result.error satisfies string;
else result.groups[0]?.members.map((member) => member.role satisfies string);
// @ts-expect-error not every cell starts
matrix({ model: 'Qwen/Qwen3-8B' }).cells[0]?.cache_dtype;
const { case: asked } = parseCommand('vllm serve Qwen/Qwen3-8B');
later({ ...asked, gpu: gpus()[0]!.key }) satisfies Result;
await init();
`;

test('of the example, of results, and against what is wrong', async () => {
  const results = (await sample()).filter((_, index) => index % EVERY === 0).map(([, answer]) => answer);
  const files = {
    'example.ts': await block('js'),
    'misuse.ts': MISUSE,
    'results.ts': `import type { Result } from 'kv-explorer';\nexport default [\n${results.join(',\n')}\n] satisfies Result[];\n`,
    'package.json': '{"type": "module"}',
    'tsconfig.json': JSON.stringify({ compilerOptions: OPTIONS }),
  };
  await withInstalled('node_modules/kv-explorer', async (folder) => {
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
    const { stdout } = await promisify(execFile)(TSC, ['--project', folder]).catch((error) => error);
    assert.equal(stdout, '');
    // and it does look at the results
    const wrong = files['results.ts'].replace('"outcome":"', '"outcome":"un');
    await writeFile(join(folder, 'results.ts'), wrong);
    const failed = await promisify(execFile)(TSC, ['--project', folder]).catch((error) => error);
    assert.match(failed.stdout, /results\.ts.*TS/);
  });
});
