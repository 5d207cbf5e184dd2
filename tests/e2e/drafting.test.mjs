// Speculative decoding: the drafter's fields, what it costs, its address, and vLLM's refusals.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { setUp, withPage } from './harness.mjs';
import { addressHas, mounted, parts } from './page.mjs';

const context = setUp();

const SUMMARY = 'Speculative decoding';
const SMALL = await readFile(new URL('../models/Qwen--Qwen3-0.6B.json', import.meta.url), 'utf8');

/** The drafter's fields. */
function fields(page) {
  const group = page.locator('details', { hasText: SUMMARY });
  return {
    method: group.getByLabel('method', { exact: true }),
    tokens: group.getByLabel('num_speculative_tokens'),
    dtype: group.getByLabel('kv_cache_dtype', { exact: true }),
    model: group.getByLabel('model', { exact: true }),
    config: group.getByLabel('The drafter\'s config.json'),
    drafter: page.locator('.facts .drafter'),
    weights: page.locator('.facts .weights'),
    command: page.locator('.command pre'),
  };
}

test('mtp on V4-Flash: a window layer more, which costs nothing, as kvx show says', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { answer, verdict } = parts(page);
    const { method, tokens, model, drafter, weights, command } = fields(page);
    assert.equal(await drafter.count(), 0);
    assert.match(await weights.innerText(), /as built\s+[\d.]+ GiB [\d,]+ B$/);
    assert.equal(await method.isVisible(), false);
    await page.getByText(SUMMARY).click();
    assert.equal(await tokens.isVisible(), false);
    assert.match(await answer.innerText(), /21 × window/);
    await method.selectOption('mtp');
    assert.match(await verdict.innerText(), /DeepSeek-V4-Flash with mtp on 8 × H200/);
    assert.match(await drafter.innerText(), /mtp, 1 token a step[\s\S]*1 × window · costs nothing/);
    assert.match(await weights.innerText(), / · the drafter [\d.]+ [GM]iB: [\d,]+ B$/);
    assert.match(await page.locator('.kinds').innerText(), /window · draft/);
    assert.doesNotMatch(await answer.innerText(), /21 × window/);
    assert.match(await command.innerText(), /--speculative-config '\{"method": "mtp", "num_speculative_tokens": 1\}'/);
    assert.equal(await model.isVisible(), false, 'its layers are the checkpoint’s own');
    await addressHas(page, 'spec_method=mtp');
    assert.equal(await page.evaluate(() => location.search), '?spec_method=mtp');
    await method.selectOption('');
    assert.equal(await drafter.count(), 0);
    await page.waitForFunction(() => location.search === '');
  });
});

test('what a drafter costs where it costs something', async () => {
  const path = '?model=deepseek-ai/DeepSeek-R1&spec_method=mtp&spec_tokens=2&pool_gib=40';
  await withPage(context, { path }, async (page) => {
    await mounted(page);
    const { drafter, tokens } = fields(page);
    assert.equal(await tokens.inputValue(), '2');
    const said = await drafter.innerText();
    assert.match(said, /mtp, 2 tokens a step[\s\S]*1 × MLA · costs \+1,152 B a token, \+0 B a request · fits 3\.67×, 3\.73× without it/);
  });
});

test('the address keeps a drafter of one’s own, its config behind the #', async () => {
  await withPage(context, { path: '?model=Qwen/Qwen3-32B' }, async (page) => {
    await mounted(page);
    await page.getByText(SUMMARY).click();
    const { answer } = parts(page);
    const { method, tokens, dtype, model, config, command, drafter } = fields(page);
    await method.selectOption('draft_model');
    await tokens.fill('3');
    await model.fill('qwen/qwen3-0.6b');
    assert.match(await command.innerText(), /"model": "Qwen\/Qwen3-0\.6B", "num_speculative_tokens": 3/);
    assert.equal(await config.isVisible(), false, 'it is one of the catalog');
    const known = await drafter.innerText();
    assert.match(known, /28 × attention · costs \+14,336 B a token/);
    await model.fill('me/mine');
    assert.match(await answer.innerText(), /the draft model "me\/mine" is not in the catalog/);
    await config.fill('{');
    await page.locator('#field-draft-error').getByText('not JSON').waitFor();
    await config.fill(SMALL);
    assert.equal(await page.locator('#field-draft-error').innerText(), '');
    assert.equal(await drafter.innerText(), known);
    await dtype.selectOption('fp8');
    assert.match(await command.innerText(), /"model": "me\/mine", "num_speculative_tokens": 3, "kv_cache_dtype": "fp8"/);
    await addressHas(page, 'spec_kv_cache_dtype=fp8');
    assert.match(await page.evaluate(() => location.hash), /^#draft=/);
    const query = 'spec_method=draft_model&spec_tokens=3&spec_model=me/mine&spec_kv_cache_dtype=fp8';
    assert.equal(await page.evaluate(() => location.search), `?model=Qwen/Qwen3-32B&${query}`);
    const before = await drafter.innerText();
    await page.reload();
    await mounted(page);
    assert.equal(await method.inputValue(), 'draft_model');
    assert.equal(await dtype.inputValue(), 'fp8');
    assert.equal(await drafter.innerText(), before);
    // a file that is dropped on the field is the drafter's
    const held = await page.evaluateHandle((text) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([text], 'config.json'));
      return transfer;
    }, SMALL.replace('"num_hidden_layers": 28', '"num_hidden_layers": 14'));
    await page.dispatchEvent('#field-draft', 'drop', { dataTransfer: held });
    await drafter.getByText('14 × attention').waitFor();
    assert.match(await command.innerText(), /"model": "\.\/the-drafter"/);
    assert.equal(await parts(page).model.inputValue(), 'Qwen/Qwen3-32B');
  });
});

test('vLLM’s refusals of a drafter are its own words', async () => {
  await withPage(context, { path: '?spec_method=eagle' }, async (page) => {
    await mounted(page);
    const { answer } = parts(page);
    const { method, tokens } = fields(page);
    assert.match(await answer.innerText(), /ValidationError: num_speculative_tokens was provided but without speculative model\./);
    await method.selectOption('mtp');
    await tokens.fill('0');
    assert.match(await answer.innerText(), /Input should be greater than 0 \[type=greater_than, input_value=0, input_type=int\]/);
    await tokens.fill('two');
    const error = page.locator('#field-spec_tokens-error');
    assert.equal(await error.innerText(), 'Expected a whole number.');
    assert.equal(await error.getAttribute('role'), 'alert');
    assert.equal(await page.locator('.results.stale').count(), 1);
  });
});

test('an address that asks for no such drafter is named', async () => {
  await withPage(context, { path: '?spec_method=guess&spec_tokens=x&spec_kv_cache_dtype=fp7#draft=%7B' }, async (page) => {
    await mounted(page);
    assert.equal(await page.locator('#address-problems li').count(), 4);
    assert.equal(await fields(page).drafter.count(), 0);
  });
});
