// Releases: what each makes of a cell, and what changed in the matrix from another one.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setUp, withPage } from './harness.mjs';
import { addressHas, mounted } from './page.mjs';

const context = setUp();

test('each release says what it makes of the cell, and one click shows its answer', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const chips = page.locator('.strip button');
    assert.equal(await chips.count(), 14);
    assert.equal(await page.locator('.strip [aria-current]').innerText(), '0.33.0\n→');
    const old = page.getByRole('button', { name: 'vLLM 0.29.0: refused, another outcome' });
    await old.click();
    await page.locator('.strip [aria-current] b', { hasText: '0.29.0' }).waitFor();
    // the keyboard stays where it was
    await page.waitForFunction(() => document.activeElement.id === 'release-0.29.0');
    assert.match(await page.locator('#answer').innerText(), /AssertionError: DeepseekV4 fp8_ds_mla layout only supports/);
    assert.equal(await page.getByLabel('vLLM release').inputValue(), '0.29.0');
    await addressHas(page, 'release=0.29.0');
  });
});

test('other bytes are told apart, with what they are', async () => {
  await withPage(context, { path: '?kv_cache_dtype=fp8' }, async (page) => {
    await mounted(page);
    assert.equal(await page.getByRole('button', { name: 'vLLM 0.30.0: becomes', exact: true }).count(), 1);
    assert.equal(await page.getByRole('button', { name: 'vLLM 0.26.0: becomes, other bytes' }).count(), 1);
    await page.getByText('What differs').click();
    const run = page.locator('.runs > div', { hasText: '0.23.0 – 0.25.1' });
    assert.match(await run.innerText(), /one block 1,039,680 B here 1,002,240 B/);
  });
});

test('two releases are compared over the whole matrix', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const section = page.locator('.changes');
    assert.equal(await section.locator('.change').count(), 0);
    await page.getByLabel('Compare with vLLM').selectOption('0.29.0');
    await section.locator('.change').first().waitFor();
    const first = section.locator('.change').first();
    assert.match(await first.innerText(), /refused[\s\S]*→[\s\S]*becomes[\s\S]*auto on every GPU/);
    await first.getByText('Why').click();
    assert.match(await first.innerText(), /_resolve_dsv4_kv_cache_dtype/);
    assert.match(await section.innerText(), /Refused in both, in other words: \d ways/);
    await addressHas(page, 'compare=0.29.0');
    // the choice survives another question, and goes when it is taken back
    await page.getByLabel('Pool per GPU').fill('20');
    await section.locator('.change').first().waitFor();
    await page.getByLabel('Compare with vLLM').selectOption('');
    await page.waitForFunction(() => document.querySelectorAll('.changes .change').length === 0);
  });
});
