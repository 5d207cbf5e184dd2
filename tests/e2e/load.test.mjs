// The page by itself: it loads from a sub-path, needs no other origin, and works once the network is gone.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mounted, setUp, withPage } from './harness.mjs';

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

test('asks for nothing after it has loaded', async () => {
  await withPage(context, {}, async (page, browserContext) => {
    await mounted(page);
    await page.waitForLoadState('networkidle');
    await browserContext.setOffline(true);
    const before = context.server.served.length;
    await page.keyboard.press('Tab');
    await page.waitForTimeout(200);
    assert.equal(context.server.served.length, before);
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
