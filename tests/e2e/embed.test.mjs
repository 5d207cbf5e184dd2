// A part of the explorer within another page: of the same server, of another, of a book; by itself; and what it refuses.

import assert from 'node:assert/strict';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { DIST, mounted, setUp, withPage } from './harness.mjs';

const DEMO = fileURLToPath(new URL('../../demo', import.meta.url));
const SHOTS = fileURLToPath(new URL('../../target/screenshots', import.meta.url));
const context = setUp();

// A server that knows nothing: no compression, no types but of pages and scripts.
function plainServer(folder) {
  const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' };
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    const name = pathname.endsWith('/') ? `${pathname}index.html` : pathname;
    try {
      const body = await readFile(join(folder, name));
      response.writeHead(200, { 'content-type': types[extname(name)] ?? 'application/octet-stream' }).end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve({
      url: `http://127.0.0.1:${server.address().port}/`,
      close: () => new Promise((done) => {
        server.closeAllConnections();
        server.close(done);
      }),
    }));
  });
}

let folder;
let host;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'kv-embed-'));
  await cp(DEMO, folder, { recursive: true });
  for (const at of ['kv', 'mdbook/book/kv']) await cp(DIST, join(folder, at), { recursive: true });
  await mkdir(SHOTS, { recursive: true });
  host = await plainServer(folder);
});
after(async () => {
  await host.close();
  await rm(folder, { recursive: true });
});

async function open(path, test, options = {}) {
  const browserContext = await context.browser.newContext({ viewport: { width: 1100, height: 900 }, ...options });
  const wrong = [];
  const page = await browserContext.newPage();
  page.on('pageerror', (error) => {
    // the book's highlighter, left out of the demo
    if (!/hljs/.test(error.message)) wrong.push(`threw: ${error}`);
  });
  page.on('console', (message) => {
    // what the book has of its own and was left out of the demo is not there
    const isOfBook = message.location().url.includes('/mdbook/') && !message.location().url.includes('/kv/');
    if (message.type() === 'error' && !isOfBook) wrong.push(message.text());
  });
  try {
    await page.goto(new URL(path, host.url).href);
    await test(page);
    assert.deepEqual(wrong, []);
  } finally {
    await browserContext.close();
  }
}

const frameOf = (page, selector) => page.frameLocator(`${selector} >> iframe`);
const heightOf = (page, selector) => page.locator(`${selector} >> iframe`).evaluate((frame) => frame.clientHeight);

async function fitted(page, selector, least) {
  await page.locator(selector).scrollIntoViewIfNeeded();
  await frameOf(page, selector).locator('#answer h2').waitFor({ state: 'attached' });
  let inner;
  let outer;
  // the frame tells its height, and is given it, in its own time
  for (let turn = 0; turn < 50; turn += 1) {
    await page.waitForTimeout(200);
    inner = await frameOf(page, selector).locator('body').evaluate((body) => body.getBoundingClientRect().height);
    outer = await heightOf(page, selector);
    if (Math.abs(outer - inner) <= 1 && outer > least) break;
  }
  assert.ok(Math.abs(outer - inner) <= 1 && outer > least, `${selector}: ${outer} of ${inner}`);
}

test('a plain page shows a cell and a chart, each as high as it is', async () => {
  await open('plain.html', async (page) => {
    await fitted(page, '#cell', 300);
    const cell = frameOf(page, '#cell');
    assert.match(await cell.locator('.sentence').innerText(), /8 × B200, vLLM 0\.33\.0[\s\S]*131,072 tokens/);
    assert.equal(await cell.locator('.controls').isVisible(), false);
    assert.equal(await cell.locator('.matrix').isVisible(), false);
    await fitted(page, '#chart', 300);
    assert.equal(await frameOf(page, '#chart').locator('figure.chart').first().isVisible(), true);
    assert.equal(await frameOf(page, '#chart').locator('.facts').isVisible(), false);
    await page.screenshot({ path: join(SHOTS, 'embed-plain.png'), fullPage: true });
  });
});

test('attributes that change are asked, and the theme follows without asking anew', async () => {
  await open('plain.html', async (page) => {
    await fitted(page, '#cell', 300);
    const cell = frameOf(page, '#cell');
    await page.locator('#cell').evaluate((element) => element.setAttribute('gpu', 'h200'));
    await cell.locator('.sentence', { hasText: 'H200 SXM' }).waitFor();
    const root = cell.locator('html');
    assert.equal(await root.getAttribute('data-theme'), 'light');
    await root.evaluate(() => {
      window.stayed = true;
    });
    await page.evaluate(() => {
      document.body.style.cssText = 'background: oklch(0.2 0 0); color: oklch(0.95 0 0)';
    });
    await cell.locator('html[data-theme="dark"]').waitFor();
    assert.equal(await root.evaluate(() => window.stayed), true);
    await page.locator('#cell').evaluate((element) => element.setAttribute('theme', 'light'));
    await cell.locator('html[data-theme="light"]').waitFor();
    assert.equal(await root.evaluate(() => window.stayed), true);
  });
});

test('a book made by mdBook shows them, in its own colours', async () => {
  await open('mdbook/book/cache.html', async (page) => {
    const matrix = 'kv-explorer[part="matrix"]';
    await fitted(page, matrix, 300);
    assert.match(await frameOf(page, matrix).locator('.sentence').innerText(), /DeepSeek-V3\.2/);
    assert.equal(await frameOf(page, matrix).getByRole('gridcell').first().isVisible(), true);
    assert.equal(await frameOf(page, matrix).locator('html').getAttribute('data-theme'), 'light');
    await page.evaluate(() => document.documentElement.classList.replace('light', 'navy'));
    await frameOf(page, matrix).locator('html[data-theme="dark"]').waitFor();
    await fitted(page, 'kv-explorer[part="layout"]', 300);
    await page.screenshot({ path: join(SHOTS, 'embed-mdbook.png'), fullPage: true });
  });
});

test('from another origin it works too, and only that origin is heard', async () => {
  const page = (await readFile(join(DEMO, 'plain.html'), 'utf8')).replace('kv/embed.js', `${context.server.url}embed.js`);
  await writeFile(join(folder, 'across.html'), page);
  await open('across.html', async (opened) => {
    await fitted(opened, '#cell', 300);
    const before = await heightOf(opened, '#cell');
    // the page around, another frame, and nonsense from the right one
    await opened.evaluate(() => postMessage({ type: 'kv-explorer:height', height: 9999 }, '*'));
    await opened.evaluate(() => {
      const frame = document.createElement('iframe');
      frame.srcdoc = "<script>parent.postMessage({ type: 'kv-explorer:height', height: 8888 }, '*')</script>";
      document.body.append(frame);
    });
    await frameOf(opened, '#cell').locator('html').evaluate(() => {
      parent.postMessage({ type: 'kv-explorer:height', height: '7777px;position:fixed' }, '*');
      parent.postMessage('kv-explorer:height', '*');
    });
    await opened.waitForTimeout(300);
    assert.equal(await heightOf(opened, '#cell'), before);
    // a theme from elsewhere than the page around is not worn
    await frameOf(opened, '#cell').locator('html').evaluate(() => postMessage({ type: 'kv-explorer:theme', theme: 'dark' }, '*'));
    await opened.waitForTimeout(100);
    assert.equal(await frameOf(opened, '#cell').locator('html').getAttribute('data-theme'), 'light');
  });
});

test('a part by itself leads to the whole page with the same question', async () => {
  await withPage(context, { path: '?gpu=b200&embed=matrix&theme=dark' }, async (page) => {
    await page.getByRole('gridcell').first().waitFor();
    assert.equal(await page.locator('.page-header').isVisible(), false);
    assert.equal(await page.locator('#answer').isVisible(), false);
    const link = page.getByRole('link', { name: 'KV Explorer' });
    await page.getByRole('gridcell').nth(9).click();
    await page.waitForFunction(() => location.search.includes('kv_cache_dtype'));
    await link.hover();
    await page.mouse.down();
    const href = new URL(await link.getAttribute('href'));
    assert.equal(href.searchParams.get('embed'), null);
    assert.equal(href.searchParams.get('theme'), null);
    assert.ok(href.searchParams.get('kv_cache_dtype'));
    assert.match(page.url(), /embed=matrix&theme=dark/);
  });
  await withPage(context, { path: '?embed=everything' }, async (page) => {
    await mounted(page);
    assert.match(await page.locator('.problems, [role="alert"]').first().innerText(), /embed: takes matrix, cell, chart or layout/);
    assert.equal(await page.locator('.controls').isVisible(), true);
  });
});

test('the page carries a policy that it keeps: no script of a text, no other origin', async () => {
  await withPage(context, { path: '?model=%3Cimg%20src=x%20onerror=alert(1)%3E' }, async (page) => {
    await mounted(page);
    const policy = await page.locator('meta[http-equiv="Content-Security-Policy"]').getAttribute('content');
    assert.match(policy, /^default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self';/);
    assert.doesNotMatch(policy, /script-src[^;]*unsafe-inline|unsafe-eval'[^;]*unsafe-eval/);
    assert.equal(await page.locator('img').count(), 0);
    const refused = await page.evaluate(async () => {
      const script = document.createElement('script');
      script.textContent = 'window.ran = true';
      document.head.append(script);
      const asked = await fetch('https://example.invalid/').then(() => 'answered', () => 'refused');
      return [window.ran ?? false, asked];
    }).catch((error) => [String(error)]);
    assert.deepEqual(refused, [false, 'refused']);
  }).catch((error) => {
    // the refusals are logged, as they should be
    if (!/Content Security Policy/.test(error.message)) throw error;
  });
});

test('the element that is copied shows the question in another page', async () => {
  let html;
  const options = { path: '?gpu=b200&max_model_len=65536', permissions: ['clipboard-read', 'clipboard-write'] };
  await withPage(context, options, async (page) => {
    await mounted(page);
    await page.getByRole('button', { name: 'Copy embed' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    html = await page.evaluate(() => navigator.clipboard.readText());
  });
  assert.match(html, /<kv-explorer part="matrix" [^<>]*gpu="b200"[^<>]* max-model-len="65536"><\/kv-explorer>$/);
  await writeFile(join(folder, 'copied.html'), `<!doctype html><link rel="icon" href="data:,">${html}`);
  await open('copied.html', async (page) => {
    await fitted(page, 'kv-explorer', 300);
    assert.match(await frameOf(page, 'kv-explorer').locator('.sentence').innerText(), /B200[\s\S]*65,536 tokens/);
  });
});
