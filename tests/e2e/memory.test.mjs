// From a GPU to a pool: the estimate, what replaces it, and what to change.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setUp, withPage } from './harness.mjs';
import { addressHas, focusIs, mounted, parts } from './page.mjs';

const context = setUp();

const memory = (page) => page.locator('.memory');
const changes = (page) => page.locator('.changes-to-make > ol > li');

test('without a pool it is estimated, with every part and its source', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const said = await memory(page).innerText();
    for (const part of ['an estimate', 'gpu_memory_utilization 0.92', 'weights, as built', 'peak activations', 'CUDA graphs', 'for the KV cache', 'longest request']) {
      assert.ok(said.includes(part), `${part} in: ${said}`);
    }
    assert.match(await parts(page).answer.innerText(), /Who holds a request of 262,144 tokens[\s\S]*3\.32 GiB[\s\S]*513\.38 MiB/);
    await memory(page).getByText('Where each figure comes from').click();
    assert.match(await memory(page).innerText(), /21,181,771,804 B[\s\S]*nothing is claimed of how often/);
    const placeholder = await page.locator('#field-pool').getAttribute('placeholder');
    assert.match(placeholder, /^≈ \d+\.\d$/);
  });
});

test('a change is made with one press, and does what it said', async () => {
  await withPage(context, { path: '?pool_gib=40' }, async (page) => {
    await mounted(page);
    const batch = changes(page).filter({ hasText: 'max_num_batched_tokens 8,192 → 2,048' });
    assert.match(await batch.innerText(), /5\.56 → 15\.79 requests[\s\S]*slower prefill/);
    assert.match(await changes(page).filter({ hasText: 'async scheduling off' }).innerText(), /5\.56 → 9\.79 requests/);
    await batch.getByRole('button', { name: /^Apply/ }).click();
    assert.match(await parts(page).verdict.innerText(), /15\.79 such requests fit/);
    assert.ok(await focusIs(page, 'suggestions-title'), 'the focus stays at the list, in view');
    const top = await parts(page).answer.evaluate((element) => element.getBoundingClientRect().top);
    assert.ok(top < 0, 'it is not scrolled to the top of the answer');
    await addressHas(page, 'max_num_batched_tokens=2048');
    assert.equal(await batch.count(), 0);
  });
});

test('a line of the log replaces the estimate, and its tokens are checked', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const pool = page.locator('#field-pool');
    await pool.fill('INFO 11-29 [gpu_worker.py:770] Available KV cache memory: 40.0 GiB INFO GPU KV cache size: 1,457,780 tokens, Maximum concurrency for 262,144 tokens per request: 5.56x');
    assert.match(await memory(page).innerText(), /as vLLM’s log says[\s\S]*40\.0 to 40\.0[\s\S]*Agrees\.|as vLLM’s log says[\s\S]*Agrees\./);
    assert.match(await parts(page).verdict.innerText(), /5\.56 such requests fit/);
    await pool.fill('GPU KV cache size: 1,457,780 tokens');
    assert.match(await parts(page).verdict.innerText(), /5\.56 such requests fit/);
    await pool.fill('Available KV cache memory: 40.0 GiB GPU KV cache size: 99,457,780 tokens');
    assert.match(await memory(page).innerText(), /Does not agree\./);
    await pool.fill('Available KV cache memory: lots');
    assert.match(await page.locator('#field-pool-error').innerText(), /Expected a number of GiB/);
  });
});

test('what does not fit is told, with vLLM’s words, and never a change that would not start', async () => {
  await withPage(context, { path: '?gpu=rtx-5090&tensor_parallel_size=1' }, async (page) => {
    await mounted(page);
    const { verdict, answer } = parts(page);
    assert.match(await verdict.innerText(), /does not fit|is not expected to fit/);
    assert.match(await answer.innerText(), /CUDA out of memory\. Tried to allocate[\s\S]*The weights alone are more than the GPU has/);
    await changes(page).first().getByRole('button', { name: /^Apply/ }).click();
    assert.match(await verdict.innerText(), /such requests fit/);
  });
  await withPage(context, { path: '?free_gib=60' }, async (page) => {
    await mounted(page);
    assert.match(
      await parts(page).answer.innerText(),
      /Free memory on device cuda:0 \(60\.0\/139\.81 GiB\) on startup is less than desired GPU memory utilization \(0\.92, 128\.62 GiB\)/,
    );
  });
});

test('a model whose weights are not counted asks for the pool', async () => {
  await withPage(context, { path: '?model=nvidia/Qwen3-235B-A22B-NVFP4' }, async (page) => {
    await mounted(page);
    assert.match(await memory(page).innerText(), /No estimate here[\s\S]*hf_quant_config\.json/);
    await page.locator('#field-pool').fill('20');
    assert.match(await parts(page).verdict.innerText(), /such requests fit in 20 GiB/);
  });
});
