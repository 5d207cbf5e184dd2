// On what an answer stands, and how to report a wrong one.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setUp, withPage } from './harness.mjs';
import { mounted, parts } from './page.mjs';

const context = setUp();

const standing = (page) => page.locator('.standing');

test('every answer says on what it stands, and where that is counted', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    await standing(page).locator('b').waitFor();
    assert.match(await standing(page).innerText(), /^verified \d+ of vLLM’s own answers are of this kind, and all equal; the pool is an estimate\. What the answers stand on$/);
    await standing(page).getByRole('link').click();
    assert.match(await page.locator('body').innerText(), /All \d,\d+ are equal[\s\S]*DeepseekV4ForCausalLM/);
    await page.getByRole('link', { name: 'KV Explorer' }).click();
    await mounted(page);
  });
  const path = '?gpu=h200&kv_cache_dtype=fp8&enable_expert_parallel=true&data_parallel_size=3&attention_backend=FLASHMLA_SPARSE_DSV4&spec_method=ngram';
  await withPage(context, { path }, async (page) => {
    await mounted(page);
    await standing(page).locator('b').waitFor();
    assert.match(await standing(page).innerText(), /^(derived|unmodelled|unverified) /);
  });
});

test('a report holds the question, our answer and room for vLLM’s', async () => {
  await withPage(context, { path: '?pool_gib=40' }, async (page) => {
    await mounted(page);
    const { answer } = parts(page);
    await answer.getByText('Report a wrong answer').click();
    const said = await answer.locator('.report pre').innerText();
    assert.match(said, /"model":"deepseek-ai\/DeepSeek-V4-Flash"[\s\S]*"available_memory":42949672960/);
    assert.match(said, /vllm serve deepseek-ai\/DeepSeek-V4-Flash[\s\S]*our answer:\nbecomes: auto → fp8_ds_mla, 3,915 B a token[\s\S]*1,457,780 tokens[\s\S]*vLLM's lines/);
  });
});

test('without the record the answers are the same, and nothing is claimed', async () => {
  const before = (browserContext) => browserContext.route('**/record.json', (route) => route.abort());
  await withPage(context, { before, mayFail: 'record.json' }, async (page) => {
    await mounted(page);
    assert.match(await parts(page).verdict.innerText(), /7\.19 GiB/);
    assert.equal(await standing(page).innerText(), '');
  });
});
