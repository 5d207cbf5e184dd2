// What people come for: an answer at first sight, another for each choice, and a link that keeps it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setUp, withPage } from './harness.mjs';
import { addressHas, focusIs, mounted, parts } from './page.mjs';

const context = setUp();

test('the first view answers a question', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { verdict, chosen } = parts(page);
    const said = await verdict.innerText();
    for (const part of ['DeepSeek-V4-Flash', '8 × H200', '0.33.0', 'fp8_ds_mla', '262,144 tokens', '7.19 GiB', '3,915 B']) {
      assert.ok(said.includes(part), `${part} in: ${said}`);
    }
    assert.match(said, /About \d+\.\d\d such requests fit \(\d+\.\d\d to \d+\.\d\d\), for vLLM is estimated to leave/);
    assert.match(await chosen.innerText(), /becomes[\s\S]*fp8_ds_mla[\s\S]*3,915 B\/token[\s\S]*≈ \d+\.\d\d×/);
    const verdictBottom = await verdict.evaluate((element) => element.getBoundingClientRect().bottom);
    assert.ok(verdictBottom < 400, 'the answer is in the first view');
  });
});

test('a pool that is given is answered exactly', async () => {
  await withPage(context, { path: '?pool_gib=40' }, async (page) => {
    await mounted(page);
    const { verdict, chosen, answer } = parts(page);
    const said = await verdict.innerText();
    for (const part of ['DeepSeek-V4-Flash', '8 × H200', '0.33.0', 'fp8_ds_mla', '262,144 tokens', '7.19 GiB', '3,915 B', '5.56']) {
      assert.ok(said.includes(part), `${part} in: ${said}`);
    }
    assert.match(await chosen.innerText(), /becomes[\s\S]*fp8_ds_mla[\s\S]*3,915 B\/token[\s\S]*5\.56×/);
    assert.match(
      await answer.innerText(),
      /GPU KV cache size: 1,457,780 tokens, Maximum concurrency for 262,144 tokens per request: 5\.56x/,
    );
  });
});

test('a cell shows its whole answer, the address keeps it, and a reload shows it again', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { cell, title, gpu, answer } = parts(page);
    await cell('b200', 'bfloat16').click();
    assert.equal(await title.innerText(), 'bfloat16');
    assert.match(await answer.innerText(), /vLLM stops while building the model, with ValueError/);
    assert.equal(await gpu.inputValue(), 'b200');
    await addressHas(page, 'kv_cache_dtype=bfloat16');
    await page.reload();
    await mounted(page);
    assert.equal(await parts(page).title.innerText(), 'bfloat16');
    assert.match(await answer.innerText(), /B200/);
  });
});

test('advice is applied with one press, and the focus is on what it led to', async () => {
  await withPage(context, { path: '?gpu=b200&kv_cache_dtype=bfloat16' }, async (page) => {
    await mounted(page);
    const { answer, title } = parts(page);
    await answer.getByRole('button', { name: /^Apply/ }).first().click();
    assert.match(await title.innerText(), /→ fp8_ds_mla/);
    assert.ok(await focusIs(page, 'answer-title'));
  });
});

test('why: the steps are in the order of a start-up, the memory among them', async () => {
  for (const [path, counts] of [['', 'all that the process has taken counts'], ['?release=0.26.0&kv_cache_dtype=fp8', 'of torch\'s']]) {
    await withPage(context, { path }, async (page) => {
      await mounted(page);
      const steps = await page.locator('.why li').allInnerTexts();
      const place = (name) => steps.findIndex((step) => step.includes(name));
      const order = ['request_memory', 'initialize_model', 'get_kv_cache_spec', 'determine_available_memory', 'a block has'];
      const places = order.map(place);
      assert.ok(places.every((at, nth) => at > (places[nth - 1] ?? 0)), `${places} in ${steps.join('\n')}`);
      assert.match(steps[places[3]], /GiB are likely left for the KV cache \([\d.]+ to [\d.]+\): [\d.]+ − [\d.]+ weights/);
      assert.ok(steps[places[3]].includes(counts), steps[places[3]]);
    });
  }
});

test('every word that answers are told in is explained before them, by keyboard too', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const summary = page.getByText(/^What the words mean: backend/);
    await summary.focus();
    await page.keyboard.press('Enter');
    const said = await page.locator('.words').innerText();
    for (const word of ['backend', 'slot', 'page', 'group', 'block', 'marginal bytes per token', 'fixed bytes per request', 'request bytes', 'pool', 'environment']) {
      assert.match(said, new RegExp(`^${word}$`, 'm'));
    }
    assert.ok(await page.locator('.words dd').last().isVisible());
    const before = await page.locator('.words').evaluate((words) =>
      Boolean(words.compareDocumentPosition(document.querySelector('.facts')) & Node.DOCUMENT_POSITION_FOLLOWING));
    assert.ok(before);
  });
});

test('numbers have their thousands apart, but for those in code and in flags to type', async () => {
  for (const path of ['', '?model=Qwen/Qwen3-32B&block_size=16&tensor_parallel_size=1', '?release=0.26.0&kv_cache_dtype=fp8&pool_gib=4']) {
    await withPage(context, { path }, async (page) => {
      await mounted(page);
      const bare = await page.evaluate(() => {
        const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
        const found = [];
        while (texts.nextNode()) {
          const { data, parentElement } = texts.currentNode;
          if (parentElement.closest('pre, code, option, .error, .advice, .model, [role="listbox"]')) continue;
          found.push(...(data.match(/(?<![\w.,-]|RTX |PRO )\d{4,}(?![\w-])/g) ?? []));
        }
        return found;
      });
      assert.deepEqual(bare, []);
    });
  }
});

test('a refusal that names the wrong cure gets the right one', async () => {
  await withPage(context, { path: '?gpu=rtx-pro-6000-server&kv_cache_dtype=bfloat16' }, async (page) => {
    await mounted(page);
    const said = await parts(page).answer.innerText();
    assert.match(said, /select a backend that supports bfloat16/);
    assert.match(said, /No attention backend takes bfloat16[\s\S]*whatever vLLM's message suggests/);
  });
});

test('what is not modelled looks like ours, not like a refusal', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { config, answer, verdict } = parts(page);
    await page.getByRole('button', { name: 'Paste', exact: true }).click();
    await config.fill('{"architectures": ["MadeUpForCausalLM"], "model_type": "made_up"}');
    assert.match(await answer.innerText(), /This is not vLLM's refusal/);
    assert.match(await verdict.innerText(), /KV Explorer has no rule/);
    assert.equal(await answer.locator('.error').count(), 0);
    await addressHas(page, 'MadeUpForCausalLM');
    await page.reload();
    await mounted(page);
    assert.match(await config.inputValue(), /MadeUpForCausalLM/);
  });
});

test('folding: every dtype and every GPU can be seen', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { table } = parts(page);
    await page.getByRole('button', { name: 'One row per GPU' }).click();
    await page.getByRole('button', { name: /refused everywhere/ }).click();
    await table.locator('td').nth(28 * 22 - 1).waitFor();
    assert.equal(await table.locator('td').count(), 28 * 22);
    await addressHas(page, 'rows=each');
  });
});
