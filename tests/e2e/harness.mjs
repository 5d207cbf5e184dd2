// What every browser test starts with: the built page, served from a sub-path, in an empty Chromium.

import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { serve } from './server.mjs';

/** The folder of the built page (`cargo xtask build`). */
export const DIST = process.env.KV_DIST ?? fileURLToPath(new URL('../../dist', import.meta.url));

/** Starts the server and one Chromium for the tests of a file. */
export function setUp() {
  const context = {};
  before(async () => {
    context.server = await serve(DIST);
    context.browser = await chromium.launch({
      executablePath: process.env.CHROME ?? '/usr/bin/chromium',
      // No sandbox: CI is root. No background networking: on a closed network it only fails, slowly.
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    });
  });
  after(async () => {
    await context.browser?.close();
    await context.server?.close();
  });
  return context;
}

/**
 * Opens the page in a context (cookies, storage) of its own and runs `test(page)`. Fails, whatever the test itself
 * asserts, when the page logs an error, throws, misses a file or asks any other origin for anything. `before(context)`
 * runs first, to stand between the page and its files; `mayFail` names the one file that may be missing then.
 */
export async function withPage({ server, browser }, { path = '', before: prepare, mayFail, ...options }, test) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const wrong = [];
  await context.route(
    (url) => url.origin !== server.origin && !['data:', 'blob:'].includes(url.protocol),
    (route) => {
      wrong.push(`asked another origin: ${route.request().url()}`);
      return route.abort();
    },
  );
  await prepare?.(context);
  const page = await context.newPage();
  page.on('pageerror', (error) => wrong.push(`threw: ${error}`));
  page.on('console', (message) => {
    if (mayFail && message.location().url.endsWith(mayFail)) return;
    if (message.type() === 'error') wrong.push(`logged an error: ${message.text()} (${message.location().url})`);
  });
  page.on('response', (response) => {
    if (mayFail && response.url().endsWith(mayFail)) return;
    if (response.status() >= 400) wrong.push(`answered ${response.status()}: ${response.url()}`);
  });
  try {
    await page.goto(server.url + path);
    await test(page, context);
    assert.deepEqual(wrong, []);
  } finally {
    await context.close();
  }
}

/** Waits until the app has drawn itself, all of it is there, and its first answer. */
export async function mounted(page) {
  await page.getByRole('heading', { level: 1 }).waitFor();
  await page.locator('.results:not(.early) .matrix').first().waitFor();
  await page.locator('.sentence b').first().waitFor();
}
