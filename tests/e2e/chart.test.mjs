// The charts: what they say without being seen, the table behind them, and that both follow the question.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setUp, withPage } from './harness.mjs';
import { mounted, parts } from './page.mjs';

const context = setUp();

/** The charts' parts. */
function charts(page) {
  return {
    memory: page.getByRole('img', { name: / GiB at 262,144 tokens/ }),
    requests: page.getByRole('img', { name: /× at 262,144 tokens/ }),
    plots: page.locator('.plot'),
    summary: page.getByText('The figures as a table'),
    table: page.getByRole('table', { name: 'One request, by context length' }),
  };
}

test('both are told in words, and the pool is marked where it is', async () => {
  await withPage(context, { path: '?pool_gib=40' }, async (page) => {
    await mounted(page);
    const { memory, requests, plots } = charts(page);
    assert.match(await memory.getAttribute('aria-label'), /7\.19 GiB at 262,144 tokens,.*; pool 40 GiB ↑ above$/);
    assert.match(await requests.getAttribute('aria-label'), /5\.56× at 262,144 tokens/);
    const { pool } = parts(page);
    await pool.fill('15');
    const line = plots.first().locator('.level');
    await line.getByText('pool 15 GiB').waitFor();
    assert.equal(await line.getAttribute('class'), 'level low');
    // without one, it is as wide as the estimate
    await pool.fill('');
    await plots.first().getByText(/pool ≈ \d+\.\d+ GiB ↑ above/).waitFor();
  });
});

test('the table has the figures, and stays open when the question changes', async () => {
  await withPage(context, { path: '?pool_gib=40' }, async (page) => {
    await mounted(page);
    const { summary, table } = charts(page);
    assert.equal(await table.isVisible(), false);
    await summary.click();
    const row = (length) => table.getByRole('row', { name: length });
    assert.match(await row('chosen 262,144').innerText(), /7\.19 GiB\s+5\.56\s+247\.55 MiB/);
    await parts(page).length.fill('100000');
    await row('chosen 100,000').waitFor();
    assert.equal(await table.isVisible(), true);
    assert.equal(await table.getByRole('row').count(), 1 + 11 + 1, 'a head, powers of two from 1k to 1M, the chosen');
  });
});

test('a length that is pointed at is read out beneath, by mouse and by arrow keys, and nothing moves', async () => {
  await withPage(context, { path: '?pool_gib=40' }, async (page) => {
    await mounted(page);
    const [memory, requests] = await page.locator('.chart').all();
    const table = () => page.locator('.charts > details').evaluate((element) => element.getBoundingClientRect().top + scrollY);
    const before = await table();
    const said = (chart) => chart.locator('.says').innerText();
    assert.match(await said(memory), /^Point at the chart/);
    const shapes = memory.locator('.shapes');
    const { width, height } = await shapes.boundingBox();
    await shapes.hover({ position: { x: width * 0.6, y: height / 2 }, force: true });
    assert.match(await said(memory), /^65,536 tokens: 6\.\d+ GiB$/);
    await requests.getByRole('radio').first().focus();
    assert.match(await said(requests), /^1,024 tokens: \d+\.\d\d requests$/);
    await page.keyboard.press('ArrowRight');
    assert.match(await said(requests), /^2,048 tokens: /);
    await page.keyboard.press('Tab');
    assert.notEqual(await page.evaluate(() => document.activeElement.type), 'radio', 'one stop of Tab');
    assert.equal(await table(), before);
  });
});

for (const width of [360, 390]) {
  test(`${width} px: neither a chart nor the open table is wider than the page`, async () => {
    await withPage(context, { viewport: { width, height: 800 }, hasTouch: true }, async (page) => {
      await mounted(page);
      const { summary, plots } = charts(page);
      await summary.click();
      const overflow = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.equal(overflow, 0);
      for (const plot of await plots.all()) {
        const outside = await plot.evaluate((element) => {
          const texts = [...element.querySelectorAll('span')].map((text) => text.getBoundingClientRect());
          return texts.filter(({ left, right }) => left < 0 || right > innerWidth).length;
        });
        assert.equal(outside, 0);
      }
    });
  });
}
