// Text that cannot be read, addresses that mean harm, and the keyboard.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setUp, withPage } from './harness.mjs';
import { mounted, parts } from './page.mjs';

const context = setUp();

test('wrong text is named beside its field, and the last answer stays, dimmed', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { length, verdict } = parts(page);
    await length.fill('26x');
    const error = page.locator('#field-max_model_len-error');
    assert.match(await error.innerText(), /max_model_len: expected a whole number/);
    assert.equal(await error.getAttribute('role'), 'alert');
    assert.equal(await length.getAttribute('aria-invalid'), 'true');
    assert.match(await verdict.innerText(), /262,144 tokens[\s\S]*still the answer/);
    assert.equal(await page.locator('.results.stale').count(), 1);
    await length.fill('128K');
    assert.match(await verdict.innerText(), /131,072 tokens/);
    assert.equal(await page.locator('.results.stale').count(), 0);
    assert.equal(await error.innerText(), '');
  });
});

test('typing keeps the focus and the caret', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { length, verdict } = parts(page);
    await length.click();
    await length.press('Home');
    await page.keyboard.type('1');
    await page.keyboard.press('Delete');
    assert.equal(await length.inputValue(), '162144');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'field-max_model_len');
    assert.match(await verdict.innerText(), /162,144 tokens/);
  });
});

test('a hostile address changes nothing and is named as text', async () => {
  const path = '?gpu=%3Cimg%20src=x%20onerror=alert(1)%3E&tensor_parallel_size=1e99&__proto__=1&release=9&pool_gib=NaN&%ff=%';
  await withPage(context, { path }, async (page) => {
    await mounted(page);
    const problems = page.locator('#address-problems');
    assert.equal(await problems.locator('li').count(), 6);
    assert.match(await problems.innerText(), /<img src=x onerror=alert\(1\)>/);
    assert.equal(await problems.locator('img').count(), 0);
    assert.match(await parts(page).verdict.innerText(), /H200[\s\S]*262,144 tokens takes 7\.19 GiB/);
    await problems.getByRole('button', { name: 'Dismiss' }).click();
    assert.equal(await problems.innerText(), '');
  });
});

test('a pasted config: 10 MB, not JSON, wrong types, hostile strings', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { config, verdict, answer } = parts(page);
    await page.getByRole('button', { name: 'Paste', exact: true }).click();
    const error = page.locator('#field-config-error');
    assert.match(await error.innerText(), /Paste the model's config\.json/);
    await config.fill('not json');
    assert.match(await error.innerText(), /not JSON/);
    assert.match(await verdict.innerText(), /DeepSeek-V4-Flash[\s\S]*still the answer/);
    await config.evaluate((element) => {
      element.value = `{"a": "${'x'.repeat(10 << 20)}"}`;
      element.dispatchEvent(new Event('input', { bubbles: true }));
    });
    assert.match(await error.innerText(), /10,48\d,\d{3} bytes/);
    assert.equal((await config.inputValue()).length > 10 << 20, true, 'nothing is lost');
    await config.fill('{"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "num_hidden_layers": "many"}');
    assert.equal(await error.innerText(), '');
    assert.match(await answer.innerText(), /not vLLM's refusal[\s\S]*config\.json/);
    await config.fill('{"architectures": ["<img src=x onerror=alert(1)>"], "model_type": "<b>"}');
    assert.match(await answer.innerText(), /<img src=x onerror=alert\(1\)>/);
    assert.equal(await answer.locator('img').count(), 0);
  });
});

test('the keyboard walks the matrix, choosing as it goes', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { chosen, table, title, answer } = parts(page);
    await chosen.focus();
    await page.keyboard.press('ArrowRight');
    assert.equal(await chosen.getAttribute('data-dtype'), 'bfloat16');
    assert.equal(await page.evaluate(() => document.activeElement.dataset.dtype), 'bfloat16');
    assert.equal(await title.innerText(), 'bfloat16');
    await page.keyboard.press('Control+End');
    await page.keyboard.press('End');
    const [cells, position] = await table.evaluate((element) => [
      element.querySelectorAll('td').length,
      [...element.querySelectorAll('td')].indexOf(document.activeElement),
    ]);
    assert.equal(position, cells - 1);
    assert.equal(await table.locator('td[tabindex="0"]').count(), 1);
    await page.keyboard.press('Enter');
    assert.ok(await answer.evaluate((element) => element === document.activeElement));
  });
});

test('the skip link is the first stop and leads to the answer', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'answer');
  });
});

test('auto-fit takes what fits, and gives a number back', async () => {
  await withPage(context, { path: '?pool_gib=8' }, async (page) => {
    await mounted(page);
    const { length, verdict } = parts(page);
    await page.getByRole('checkbox', { name: /Auto-fit/ }).check();
    assert.equal(await length.inputValue(), '-1');
    assert.match(await verdict.innerText(), /A request of [\d,]+ tokens/);
    await page.getByRole('checkbox', { name: /Auto-fit/ }).uncheck();
    assert.match(await length.inputValue(), /^\d+$/);
  });
});
