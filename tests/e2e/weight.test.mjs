// The page's weight, gzipped: what a first visit loads until it answers and takes input, and everything that is published.

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { DIST, mounted, setUp, withPage } from './harness.mjs';
import { gzip } from './server.mjs';

// The design's figures: KB of 1024 bytes.
const FIRST_LOAD_BUDGET_BYTES = 200 * 1024;
const EVERYTHING_BUDGET_BYTES = 400 * 1024;
// What the page weighs today, rounded up: it may shrink; whoever lets it grow says so here.
const FIRST_LOAD_LIMIT_BYTES = 152_000;
const EVERYTHING_LIMIT_BYTES = 401_000;

const SECOND_HALF = '**/second-*.lzma';

const context = setUp();

function report(title, files, budget) {
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  const rows = files.map(({ path, bytes }) => `  ${bytes.toLocaleString('en').padStart(9)}  ${path}`);
  console.log([`${title}: ${total.toLocaleString('en')} of ${budget.toLocaleString('en')} bytes gzipped`, ...rows].join('\n'));
  return total;
}

test('a first load answers and takes input without the second half, and does not grow', async () => {
  let asks = 0;
  let sayAsked;
  const asked = new Promise((resolve) => {
    sayAsked = resolve;
  });
  const before = async (browser) => {
    // however slow the machine, no time passes after which the page asks by itself
    await browser.addInitScript(() => {
      const later = window.setTimeout;
      window.setTimeout = (run, ms, ...rest) => (ms >= 2000 ? 0 : later(run, ms, ...rest));
    });
    await browser.route(SECOND_HALF, () => {
      asks += 1;
      sayAsked();
      return new Promise(() => {});
    });
  };
  await withPage(context, { before }, async (page) => {
    // the sentence and the matrix, with the choice marked by the program
    await page.locator('.sentence b', { hasText: 'DeepSeek-V4-Flash' }).waitFor();
    assert.match(await page.locator('.sentence').innerText(), /each further token 3,915 B\./);
    assert.ok((await page.getByRole('gridcell').count()) > 100);
    // controls are there, and keep what is typed
    await page.locator('#field-gpu').waitFor();
    await page.waitForLoadState('networkidle');
    assert.equal(asks, 0, 'the second half is not asked for before anybody shows interest');
    const total = report('first load', context.server.served, FIRST_LOAD_BUDGET_BYTES);
    assert.ok(total <= Math.min(FIRST_LOAD_LIMIT_BYTES, FIRST_LOAD_BUDGET_BYTES), `a first load takes ${total} bytes`);
    const length = page.getByRole('textbox', { name: 'Context length' });
    await length.fill('1000');
    assert.equal(await length.inputValue(), '1000');
    await asked;
    assert.equal(asks, 1, 'interest asks for it, once');
  });
});

test('what was entered before the second half came is answered when it comes', async () => {
  let release;
  const held = new Promise((resolve) => {
    release = resolve;
  });
  const before = (browser) => browser.route(SECOND_HALF, async (route) => {
    await held;
    await route.continue();
  });
  await withPage(context, { before }, async (page) => {
    const built = await page.locator('.matrix table').innerHTML();
    await page.locator('#field-gpu').selectOption('b200');
    assert.match(await page.locator('.sentence').innerText(), /H200 SXM/, 'nothing is answered in its place');
    release();
    await mounted(page);
    await page.locator('.sentence b', { hasText: 'B200' }).first().waitFor();
    // the first answer that is built in is what the program says
    await page.locator('#field-gpu').selectOption('h200-sxm-141gb');
    await page.locator('.sentence b', { hasText: 'H200 SXM' }).first().waitFor();
    await page.locator('.stands').first().waitFor();
    const words = (html) => html.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ').trim();
    assert.equal(words(await page.locator('.matrix table').innerHTML()), words(built));
  });
});

test('a second half that does not come is tried again', async () => {
  let asks = 0;
  const before = (browser) => browser.route(SECOND_HALF, (route) => {
    asks += 1;
    return asks === 1 ? route.fulfill({ status: 404 }) : route.continue();
  });
  await withPage(context, { before, mayFail: '.lzma' }, async (page) => {
    await page.locator('#field-gpu').focus();
    await mounted(page);
    assert.equal(asks, 2);
  });
});

test('what is clicked before the second half is here happens when it comes, and the page does not wait', async () => {
  let asks = 0;
  let release;
  const held = new Promise((resolve) => {
    release = resolve;
  });
  const before = (browser) => browser.route(SECOND_HALF, async (route) => {
    asks += 1;
    await held;
    await route.continue();
  });
  await withPage(context, { before }, async (page) => {
    await page.locator('#field-gpu').waitFor();
    const cell = page.locator('tr:has([data-gpu="b200"]) td[data-dtype="fp8"]').first();
    await cell.click();
    // frames are drawn meanwhile: nothing blocks
    const drawn = page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => resolve('drawn'))));
    const late = new Promise((resolve) => setTimeout(resolve, 10_000, 'the page stands still'));
    assert.equal(await Promise.race([drawn, late]), 'drawn');
    release();
    await page.locator('.sentence b', { hasText: 'B200' }).first().waitFor();
    assert.match(await page.locator('.sentence').innerText(), /fp8 becomes|fp8 works/);
    assert.equal(asks, 1);
  });
});

for (const [half, path] of [['first-*.lzma', ''], ['second-*.lzma', '?gpu=b200'], ['unpack-*.wasm', '?gpu=b200']]) {
  test(`${half} that fails is said to, and tried again (${path || 'the first question'})`, async () => {
    let asks = 0;
    const before = (browser) => browser.route(`**/${half}`, (route) => {
      asks += 1;
      return asks <= 1 ? route.fulfill({ status: 503 }) : route.continue();
    });
    await withPage(context, { path, before, mayFail: half.slice(half.indexOf('.')) }, async (page) => {
      await page.getByRole('alert').filter({ hasText: 'tried again' }).waitFor();
      await mounted(page);
      assert.equal(await page.locator('#not-loaded').count(), 0);
    });
  });
}

for (const half of ['first-', 'second-']) {
  test(`a damaged ${half}half is fetched anew, though the browser was told to keep it`, async () => {
    context.server.damaged.push(half);
    await withPage(context, { path: '?gpu=b200' }, async (page) => {
      await page.getByRole('alert').filter({ hasText: 'tried again' }).waitFor();
      await mounted(page);
      await page.locator('.sentence b', { hasText: 'B200' }).first().waitFor();
      assert.deepEqual(context.server.damaged, []);
    });
  });
}

test('another question than the first waits for all of the program, once', async () => {
  await withPage(context, { path: '?gpu=b200' }, async (page) => {
    await page.waitForLoadState('networkidle');
    await mounted(page);
    await page.locator('.sentence b', { hasText: 'B200' }).first().waitFor();
    const halves = context.server.served.filter(({ path }) => path.includes('/second-'));
    assert.equal(new Set(halves.map(({ path }) => path)).size, 1);
  });
});

test('what the first half draws is what the whole program draws', async () => {
  const drawn = async (path) => {
    let html;
    await withPage(context, { path }, async (page) => {
      await page.locator('#field-gpu').waitFor();
      await page.locator('.page-footer, footer').first().waitFor();
      await mounted(page);
      await page.locator('.stands').first().waitFor();
      html = await page.evaluate(() => document.body.innerHTML);
      // marks of the framework, which stand where nothing is
      html = html.replaceAll('<!---->', '');
    });
    return html;
  };
  // the same question: with an address, the program is whole before it draws
  assert.equal(await drawn(''), await drawn('?gpu=h200-sxm-141gb'));
});

test('everything published does not grow', async () => {
  const entries = await readdir(DIST, { recursive: true, withFileTypes: true });
  const files = [];
  for (const entry of entries.filter((candidate) => candidate.isFile())) {
    const path = join(entry.parentPath ?? entry.path, entry.name);
    files.push({ path: relative(DIST, path), bytes: gzip(await readFile(path)).length });
  }
  const total = report('everything', files, EVERYTHING_BUDGET_BYTES);
  assert.ok(total <= EVERYTHING_LIMIT_BYTES, `everything together takes ${total} bytes`);
});
