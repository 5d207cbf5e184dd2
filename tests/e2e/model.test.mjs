// The model: searched for by name, pasted, opened or dropped; and the page while the list of models is not there.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { DIST, setUp, withPage } from './harness.mjs';
import { addressHas, mounted, parts } from './page.mjs';
import { program } from './program.mjs';

const context = setUp();
const LIST = 'models.json';
const QWEN = JSON.stringify({ architectures: ['Qwen2MoeForCausalLM'], model_type: 'qwen2_moe' });

const active = (page) => page.locator('[role="option"][aria-selected="true"]');
const focused = (page) => page.evaluate(() => document.activeElement.id);

/** Drops files on an element, as a person would: they are held over it first. */
async function drag(page, selector, files, last = 'drop') {
  const held = await page.evaluateHandle((list) => {
    const transfer = new DataTransfer();
    for (const { name, text, bytes } of list) {
      transfer.items.add(new File([bytes ? new Uint8Array(bytes) : text], name));
    }
    return transfer;
  }, files);
  for (const kind of ['dragenter', 'dragover', last]) {
    await page.dispatchEvent(selector, kind, { dataTransfer: held });
  }
}

test('nothing of the models is in the program', async () => {
  const models = JSON.parse(await readFile(join(DIST, LIST), 'utf8'));
  const ids = Object.keys(models);
  assert.ok(ids.length > 70);
  const { first, second } = await program();
  const all = Buffer.concat([first, second]).toString('latin1');
  // the first view's model is named; its config is not there either
  const named = ids.filter((id) => all.includes(id));
  assert.deepEqual(named, ['deepseek-ai/DeepSeek-V4-Flash']);
  for (const part of ['{"architectures"', '"num_hidden_layers":', '"model_type":"']) {
    assert.ok(!all.includes(part), part);
  }
});

test('a model is found by any parts of its name, with the keyboard alone', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { model, options, verdict, recognised } = parts(page);
    assert.match(await recognised.innerText(), /DeepseekV4ForCausalLM deepseek_v4[\s\S]*MLA with a window of 128/);
    await model.focus();
    assert.equal(await model.getAttribute('aria-expanded'), 'false');
    await page.keyboard.type('v4 PRO');
    assert.equal(await model.getAttribute('aria-expanded'), 'true');
    const found = await options.allInnerTexts();
    assert.ok(found.length >= 2 && found.slice(0, 2).every((name) => name.includes('V4-Pro')), found.join());
    assert.equal(await focused(page), 'field-model');
    assert.equal(await active(page).innerText(), found[0]);
    assert.equal(await model.getAttribute('aria-activedescendant'), await active(page).getAttribute('id'));
    await page.keyboard.press('End');
    assert.equal(await active(page).innerText(), found.at(-1));
    await page.keyboard.press('ArrowDown');
    assert.equal(await active(page).innerText(), found[0], 'it goes round');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('Home');
    await page.keyboard.press('Enter');
    assert.equal(await model.inputValue(), 'deepseek-ai/DeepSeek-V4-Pro');
    assert.equal(await model.getAttribute('aria-expanded'), 'false');
    assert.equal(await focused(page), 'field-model');
    assert.match(await verdict.innerText(), /DeepSeek-V4-Pro/);
    await addressHas(page, 'model=deepseek-ai/DeepSeek-V4-Pro');
    // Escape gives back what was there
    await page.keyboard.type('glm 5.1');
    assert.ok((await options.allInnerTexts()).every((name) => name.includes('GLM-5.1')));
    await page.keyboard.press('Escape');
    assert.equal(await model.inputValue(), 'deepseek-ai/DeepSeek-V4-Pro');
    assert.equal(await options.count(), 0);
  });
});

test('with the pointer: the whole list opens at the chosen model, and a click chooses', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { model, options, recognised } = parts(page);
    await model.click();
    assert.ok((await options.count()) > 70);
    assert.equal(await active(page).innerText(), 'DeepSeek-V4-Flash');
    const option = page.getByRole('option', { name: 'gpt-oss-20b', exact: true });
    await option.scrollIntoViewIfNeeded();
    await option.click();
    assert.equal(await model.inputValue(), 'openai/gpt-oss-20b');
    assert.equal(await options.count(), 0);
    assert.match(await recognised.innerText(), /GptOssForCausalLM gpt_oss[\s\S]*12 × GQA with sinks/);
  });
});

test('nothing found: it says so and offers one’s own config.json', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { model, options, config } = parts(page);
    await model.fill('no such model');
    assert.match(await page.locator('.found [role="status"]').innerText(), /No model here is called “no such model”/);
    assert.deepEqual(await options.allInnerTexts(), ['Paste or drop a config.json …']);
    // a typo is no wish for one's own file: Enter leaves the offer where it is
    await page.keyboard.press('Enter');
    assert.equal(await options.count(), 1);
    await options.first().click();
    await config.waitFor();
    await page.waitForFunction(() => document.activeElement.id === 'field-config');
  });
});

test('an architecture without rules is named, with those that are near', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { recognised, config } = parts(page);
    await page.getByRole('button', { name: 'Paste', exact: true }).click();
    await config.fill(QWEN);
    assert.match(await recognised.innerText(), /Qwen2MoeForCausalLM qwen2_moe\s+Not modelled\.[\s\S]*Qwen3MoeForCausalLM/);
    await recognised.locator('summary').click();
    assert.match(await recognised.innerText(), /MixtralForCausalLM/);
    await config.fill('{}');
    assert.match(await recognised.innerText(), /^Not modelled/);
    await config.fill('{');
    assert.equal(await recognised.innerText(), '');
  });
});

test('a config.json is dropped anywhere; what it cannot be is said', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { config, recognised, fileProblem, verdict, model } = parts(page);
    const config_json = { name: 'config.json', text: QWEN };
    await drag(page, '#answer', [config_json], 'dragover');
    assert.ok(await page.locator('.drop').isVisible());
    await drag(page, '#answer', [config_json], 'dragleave');
    assert.ok(!(await page.locator('.drop').isVisible()));
    await drag(page, '#answer', [config_json]);
    await recognised.getByText('Qwen2MoeForCausalLM').waitFor();
    assert.ok(!(await page.locator('.drop').isVisible()));
    assert.equal(await config.inputValue(), QWEN);
    assert.equal(await model.inputValue(), 'your own config.json');
    assert.match(await verdict.innerText(), /has no rule/);
    for (const [files, said] of [
      [[{ name: 'model.safetensors', text: 'x'.repeat(2 << 20) }], /model\.safetensors: This has 2,097,152 bytes/],
      [[{ name: 'a.bin', bytes: [0, 255, 254, 1] }], /a\.bin is not text/],
      [[{ name: 'a.json', text: '{}' }, { name: 'b.json', text: '{}' }], /2 files, and none is called config\.json/],
    ]) {
      await drag(page, 'body', files);
      await fileProblem.getByText(said).waitFor();
      assert.equal(await config.inputValue(), QWEN, 'nothing is lost');
    }
    await drag(page, 'body', [{ name: 'a.json', text: 'x' }, { name: 'config.json', text: '[1]' }]);
    await page.locator('#field-config-error').getByText('this is an array').waitFor();
    assert.equal(await fileProblem.innerText(), '');
  });
});

test('a config.json is opened from the disk', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { config, recognised } = parts(page);
    const file = { name: 'config.json', mimeType: 'application/json', buffer: Buffer.from(QWEN) };
    await page.getByLabel('Open a config.json').setInputFiles(file);
    await recognised.getByText('Qwen2MoeForCausalLM').waitFor();
    assert.equal(await config.inputValue(), QWEN);
  });
});

test('while the models load, the page says so, and nothing jumps when they are here', async () => {
  for (const viewport of [{ width: 1440, height: 900 }, { width: 390, height: 844 }]) {
    let arrive;
    const arrives = new Promise((resolve) => {
      arrive = resolve;
    });
    const before = (browserContext) => browserContext.route(`**/${LIST}`, async (route) => {
      await arrives;
      await route.continue();
    });
    await withPage(context, { before, viewport }, async (page) => {
      const { verdict, model } = parts(page);
      await verdict.getByText('Loading the models').waitFor();
      assert.equal(await model.inputValue(), 'deepseek-ai/DeepSeek-V4-Flash');
      await page.evaluate(() => {
        globalThis.shift = 0;
        new PerformanceObserver((list) => {
          for (const { value } of list.getEntries()) globalThis.shift += value;
        }).observe({ type: 'layout-shift' });
      });
      arrive();
      await mounted(page);
      await page.waitForTimeout(300);
      const shift = await page.evaluate(() => globalThis.shift);
      console.log(`layout shift at ${viewport.width} px: ${shift.toFixed(4)}`);
      assert.ok(shift < 0.05, `${shift}`);
    });
  }
});

test('without the list: why, another try, and one’s own config.json all the same', async () => {
  let isBroken = true;
  const before = (browserContext) => browserContext.route(`**/${LIST}`, (route) => (
    isBroken ? route.fulfill({ status: 503, body: 'no' }) : route.continue()
  ));
  await withPage(context, { before, mayFail: LIST }, async (page) => {
    const { verdict, recognised, model, options, answer } = parts(page);
    await verdict.getByText('The models did not load: the server answered 503.').waitFor();
    await model.click();
    assert.deepEqual(await options.allInnerTexts(), ['Paste or drop a config.json …']);
    await page.keyboard.press('Escape');
    await drag(page, 'body', [{ name: 'config.json', text: QWEN }]);
    await recognised.getByText('Qwen2MoeForCausalLM').waitFor();
    assert.match(await answer.innerText(), /not modelled yet/);
    const again = page.getByRole('button', { name: 'Try again' });
    await again.click();
    await again.waitFor();
    isBroken = false;
    await again.click();
    await again.waitFor({ state: 'detached' });
    assert.equal(await focused(page), 'field-model');
    await page.keyboard.type('v4-flash');
    await page.keyboard.press('Enter');
    assert.match(await verdict.innerText(), /DeepSeek-V4-Flash/);
  });
});

test('without a network: the same, from the first view', async () => {
  const before = (browserContext) => browserContext.route(`**/${LIST}`, (route) => route.abort());
  await withPage(context, { before, mayFail: LIST }, async (page) => {
    const { verdict } = parts(page);
    await verdict.getByText('the network did not answer').waitFor();
    await page.unrouteAll();
    await page.context().unrouteAll();
    await page.getByRole('button', { name: 'Try again' }).click();
    await mounted(page);
    assert.match(await verdict.innerText(), /DeepSeek-V4-Flash[\s\S]*7\.19 GiB/);
  });
});

test('an old link opens, whatever its case, and an unknown model is named', async () => {
  await withPage(context, { path: '?model=ZAI-org/glm-5' }, async (page) => {
    await mounted(page);
    assert.equal(await parts(page).model.inputValue(), 'zai-org/GLM-5');
    await addressHas(page, '?model=zai-org/GLM-5');
  });
  await withPage(context, { path: '?model=no/such' }, async (page) => {
    await mounted(page);
    assert.match(await page.locator('#address-problems').innerText(), /model: "no\/such" is not known here/);
    assert.equal(await parts(page).model.inputValue(), 'deepseek-ai/DeepSeek-V4-Flash');
  });
});

test('a pasted config stays in the browser: behind the #, which is never sent', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    await page.getByRole('button', { name: 'Paste', exact: true }).click();
    await page.getByLabel('Its config.json').fill(QWEN);
    await addressHas(page, 'qwen2_moe');
    assert.equal(await page.evaluate(() => location.search), '?model=pasted');
    assert.match(await page.evaluate(() => location.hash), /^#config=/);
    await page.reload();
    await mounted(page);
    assert.match(await parts(page).recognised.innerText(), /Qwen2MoeForCausalLM qwen2_moe/);
  });
});
