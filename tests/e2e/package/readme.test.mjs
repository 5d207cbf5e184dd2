// The README's example prints what the README says, wherever the package runs.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import { serve } from '../server.mjs';
import { block, withInstalled } from './package.mjs';

const run = promisify(execFile);

async function printedByNode(example, ...options) {
  return withInstalled('node_modules/kv-explorer', async (folder) => {
    await writeFile(join(folder, 'example.mjs'), example);
    const { stdout } = await run(process.execPath, [...options, 'example.mjs'], { cwd: folder });
    return stdout;
  });
}

test('in Node', async () => {
  assert.equal(await printedByNode(await block('js')), await block('text'));
});

test('as a bundler loads it', async () => {
  // Node can take a .wasm file as a module, as bundlers do
  const example = (await block('js')).replace("'kv-explorer'", "'kv-explorer/bundler'");
  const printed = await printedByNode(example, '--experimental-wasm-modules', '--no-warnings');
  assert.equal(printed, await block('text'));
});

test('in Chromium, on a page without a bundler', async () => {
  await withInstalled('kv-explorer', async (folder) => {
    await writeFile(join(folder, 'index.html'), await block('html'));
    await writeFile(join(folder, 'example.js'), await block('js'));
    const server = await serve(folder);
    const browser = await chromium.launch({
      executablePath: process.env.CHROME ?? '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
    });
    try {
      const page = await browser.newPage();
      const wanted = await block('text');
      let printed = '';
      const wrong = [];
      const ended = new Promise((resolve) => {
        page.on('console', (message) => {
          // a browser asks for an icon that this page has not
          if (message.location().url.endsWith('favicon.ico')) return;
          printed += `${message.text()}\n`;
          if (printed.length >= wanted.length) resolve();
        });
        page.on('pageerror', (error) => {
          wrong.push(`${error}`);
          resolve();
        });
      });
      await page.goto(server.url);
      await Promise.race([ended, page.waitForTimeout(20_000)]);
      assert.deepEqual(wrong, []);
      assert.equal(printed, wanted);
    } finally {
      await browser.close();
      await server.close();
    }
  });
});
