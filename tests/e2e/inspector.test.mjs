// The layout inspector: the block to scale, a kind of layer taken apart, offsets on hover and focus, and texts to copy.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setUp, withPage } from './harness.mjs';
import { addressHas, mounted, parts } from './page.mjs';

const context = setUp();
const CLIPBOARD = { permissions: ['clipboard-read', 'clipboard-write'] };

/** The inspector's parts. */
function inspector(page) {
  const panel = page.locator('#taken-apart');
  return {
    panel,
    kind: (name) => page.locator('.choices label', { has: page.getByText(name, { exact: true }) }).getByRole('radio'),
    pages: (name) => page.locator('.block').getByRole('button', { name }),
    block: page.locator('.block .says'),
    slot: panel.getByRole('img', { name: 'Slot' }),
    page: panel.getByRole('img', { name: 'Page' }),
    names: (bar, name) => bar.locator('xpath=..').locator('.part-names li', { hasText: name }),
    said: (bar) => bar.locator('xpath=..').locator('.says'),
    copied: async (name) => {
      await panel.getByRole('button', { name }).click();
      return page.evaluate(() => navigator.clipboard.readText());
    },
  };
}

test('a page of the block tells where it lies, by mouse and by keyboard, and nothing moves', async () => {
  await withPage(context, { path: '?pool_gib=40' }, async (page) => {
    await mounted(page);
    const { pages, block } = inspector(page);
    const place = () => page.locator('.kinds').evaluate((element) => element.getBoundingClientRect().top + scrollY);
    const before = await place();
    await pages(/^21 × C4 37,440 B/).hover();
    assert.equal(
      await block.innerText(),
      '21 × C4 37,440 B: the page of model.layers.2.attn at offset 181,440 B, stride between layers 37,440 B, between blocks 1,002,240 B',
    );
    assert.equal(await place(), before);
    await pages(/^20 × C128 1,728 B/).focus();
    assert.match(await block.innerText(), /^20 × C128 1,728 B: the page of model\.layers\.3\.attn at offset 967,680 B/);
    await page.keyboard.press('Tab');
    assert.doesNotMatch(await block.innerText(), /C128 1,728/);
    assert.match(await block.innerText(), /unused of each block|21 × /);
    assert.equal(await place(), before);
    await page.locator('.block .padding').first().hover();
    assert.match(await block.innerText(), /unused of each block of this group/);
  });
});

test('pressing pages takes their kind apart: rows, then the footer of scales, then alignment', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const view = inspector(page);
    await view.pages(/^21 × C4 37,440 B/).click();
    assert.ok(await view.kind('C4').isChecked());
    const widths = (bar) => bar.locator('.part').evaluateAll((all) => all.map((part) => part.getBoundingClientRect().width));
    const [rows, footer, alignment] = await widths(view.page);
    assert.ok(Math.abs(rows / footer - 36_864 / 512) < 8, `${rows} : ${footer}`);
    assert.ok(alignment >= 2, 'what is thin is seen');
    await view.names(view.page, 'footer').focus();
    assert.equal(await view.said(view.page).innerText(), 'footer: 512 B at +36,864, 64 of 8 B by state: scales, pad');
    const [nope, rope] = await widths(view.slot);
    assert.ok(Math.abs(nope / rope - 448 / 128) < 0.2, `${nope} : ${rope}`);
    await view.slot.locator('.part').nth(1).hover();
    assert.match(await view.said(view.slot).innerText(), /^rope: 128 B of bfloat16, the first at \+448, every 576 B/);
    assert.match(await view.panel.locator('table').innerText(), /scales[\s\S]*\+36,864\s+7 × 64\s+8 B\s+ue8m0/);
  });
});

test('a kind is chosen by arrow keys, and stays while answers change', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const view = inspector(page);
    await view.kind('window').focus();
    await page.keyboard.press('ArrowDown');
    assert.ok(await view.kind('indexer').isChecked());
    assert.match(await view.panel.innerText(), /keys by which each query picks/);
    assert.equal(await page.evaluate(() => document.activeElement.type), 'radio', 'the focus stays');
    await parts(page).gpu.selectOption('b200');
    await addressHas(page, 'gpu=b200');
    assert.ok(await view.kind('indexer').isChecked());
    // SM100 keeps the scale four times over
    assert.match(await view.panel.locator('table').innerText(), /scale[\s\S]*ue8m0/);
  });
});

test('the anatomy is copied as JSON and as a C comment', async () => {
  await withPage(context, { path: '?pool_gib=40', ...CLIPBOARD }, async (page) => {
    await mounted(page);
    const view = inspector(page);
    await view.kind('C4').check();
    const json = JSON.parse(await view.copied('Copy as JSON'));
    assert.equal(json.page_bytes, 37_440);
    const sum = json.fields.reduce((all, { bytes, count }) => all + bytes * count, 0);
    assert.equal(sum * json.kernel_blocks + json.padding_bytes, json.page_bytes);
    const c = await view.copied('Copy as a C comment');
    assert.match(c, /^\/\*\n \* vllm serve deepseek-ai\/DeepSeek-V4-Flash[^\n]*H200 SXM\n \* vLLM 0\.33\.0, fp8_ds_mla, BLHNC\n/);
    assert.match(c, /float8_e4m3fn nope\[448\];[\s\S]* \*\/\n$/);
  });
});

test('every family draws its own: states of a hybrid, K and V, and what is not modelled', async () => {
  for (const [path, words] of [
    ['?model=Qwen/Qwen3.5-35B-A3B&tensor_parallel_size=2', /conv_state[\s\S]*recurrent_state[\s\S]*float32/],
    ['?model=Qwen/Qwen3-32B&tensor_parallel_size=2&kv_cache_dtype=fp8', /\bk\b[\s\S]*float8_e4m3fn[\s\S]*\bv\b/],
    ['?model=deepseek-ai/DeepSeek-V3.2&kv_cache_dtype=fp8', /key[\s\S]*scale/],
    ['?model=meta-llama/Llama-4-Maverick-17B-128E-Instruct&gpu=b200&kv_cache_dtype=nvfp4_ds_mla', /Not modelled: the bytes are known/],
  ]) {
    await withPage(context, { path }, async (page) => {
      await mounted(page);
      assert.match(await inspector(page).panel.innerText(), words, path);
    });
  }
});

test('it fits a phone', async () => {
  await withPage(context, { viewport: { width: 390, height: 844 }, hasTouch: true }, async (page) => {
    await mounted(page);
    await inspector(page).kind('C4').check();
    const overflow = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    assert.equal(overflow, 0);
  });
});
