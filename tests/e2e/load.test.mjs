// The page by itself: it loads from a sub-path, needs no other origin, and works once the network is gone.

import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { DIST, setUp, withPage } from './harness.mjs';
import { mounted, parts } from './page.mjs';

const context = setUp();

test('loads from a sub-path, with a title and a heading', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    assert.match(await page.title(), /KV Explorer/);
  });
});

test('asks only its own sub-path for files', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const outside = context.server.served.filter(({ status }) => status !== 200);
    assert.deepEqual(outside, []);
  });
});

test('everything it needs comes by itself; then it asks for nothing more, and answers without a network', async () => {
  const published = await readdir(DIST);
  // pages and scripts for others
  const awaited = published.filter((name) => !['index.html', 'accuracy.html', 'embed.js'].includes(name));
  const { served } = context.server;
  const start = served.length;
  const isMissing = (name) => !served.slice(start).some(({ path }) => path.endsWith(`/${name}`));
  // Chromium itself asks for the icon again when the address changes, and logs that it did not come.
  await withPage(context, { mayFail: '.svg' }, async (page, browserContext) => {
    await mounted(page);
    // the last that it loads is the record of vLLM's answers
    await page.locator('.stands').first().waitFor();
    for (let turn = 0; awaited.some(isMissing) && turn < 100; turn += 1) await page.waitForTimeout(100);
    assert.deepEqual(awaited.filter(isMissing), []);
    await browserContext.setOffline(true);
    const before = served.length;
    const { verdict, gpu, model } = parts(page);
    await gpu.selectOption('b200');
    await model.fill('deepseek-ai/DeepSeek-V3.2');
    await model.press('Enter');
    await page.getByLabel('vLLM release').selectOption('0.32.0');
    await verdict.getByText(/DeepSeek-V3\.2 on 8 × B200, vLLM 0\.32\.0/).waitFor();
    await page.getByRole('button', { name: 'One row per GPU' }).click();
    await page.getByText('Paste a command, a log or an error').click();
    await page.locator('#paste').fill('vllm serve zai-org/GLM-5 -tp 8');
    await verdict.getByText('GLM-5').waitFor();
    assert.equal(served.length, before);
  });
});

test('fits a phone without scrolling sideways', async () => {
  await withPage(context, { viewport: { width: 360, height: 740 } }, async (page) => {
    await mounted(page);
    const overflow = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    assert.equal(overflow, 0);
  });
});
