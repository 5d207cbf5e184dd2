// How it looks and reads: axe in each state, no sideways scrolling, and screenshots to look at in target/screenshots.

import assert from 'node:assert/strict';
import { mkdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { setUp, withPage } from './harness.mjs';
import { mounted } from './page.mjs';

const SHOTS = process.env.KV_SHOTS ?? fileURLToPath(new URL('../../target/screenshots', import.meta.url));
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const context = setUp();

const DESKTOP = { width: 1440, height: 900 };
const PHONE = { width: 360, height: 740 };

/** Each state a person can bring the page to. */
const STATES = {
  answer: '',
  refused: '?gpu=b200&kv_cache_dtype=bfloat16',
  'does-not-fit': '?pool_gib=4',
  unverified: '?attention_backend=FLASHINFER_MLA_SPARSE_DSV4',
  unmodelled: '?model=pasted&config=%7B%22architectures%22:%5B%22MadeUpForCausalLM%22%5D,%22model_type%22:%22made_up%22%7D',
  problems: '?gpu=gtx-1080&release=0.1',
  compared: '?compare=0.26.0&release=0.28.0&kv_cache_dtype=fp8',
  drafter: '?model=deepseek-ai/DeepSeek-R1&spec_method=mtp&spec_tokens=2',
  'draft-model': '?model=Qwen/Qwen3-32B&spec_method=draft_model&spec_model=me/mine',
  everything: '?rows=each&dtypes=all&enforce_eager=true',
  sorted: '?sort=fit',
  filtered: '?arch=SM120&mem=48-&fold=SM120',
};

/** What else a person brings it to, in a few steps. */
const STEPS = {
  list: async (page) => {
    await page.getByRole('combobox', { name: 'Model', exact: true }).click();
  },
  searched: async (page) => {
    await page.getByRole('combobox', { name: 'Model', exact: true }).fill('nvfp4 glm');
  },
  'nothing-found': async (page) => {
    await page.getByRole('combobox', { name: 'Model', exact: true }).fill('no such model');
  },
  export: async (page) => {
    await page.getByRole('button', { name: 'Export', exact: true }).click();
  },
  'held-over': async (page) => {
    const held = await page.evaluateHandle(() => {
      const transfer = new DataTransfer();
      transfer.items.add(new File(['{}'], 'config.json'));
      return transfer;
    });
    await page.dispatchEvent('body', 'dragover', { dataTransfer: held });
  },
  'no-rules': async (page) => {
    await page.getByRole('button', { name: 'Paste', exact: true }).click();
    await page.locator('#field-config').fill('{"architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe"}');
    await page.locator('#recognised summary').click();
  },
  'wrong-file': async (page) => {
    const buffer = Buffer.alloc(3 << 20);
    await page.getByLabel('Open a config.json').setInputFiles({ name: 'model.safetensors', mimeType: '', buffer });
    await page.locator('#file-problem:not(:empty)').waitFor();
  },
};

/** Without its list of models: on its way, or not to be had. */
const LISTLESS = {
  loading: () => new Promise(() => {}),
  'no-models': (route) => route.fulfill({ status: 503, body: '' }),
};

const VIEWS = {
  light: { colorScheme: 'light', viewport: DESKTOP },
  dark: { colorScheme: 'dark', viewport: DESKTOP },
  phone: { viewport: PHONE, deviceScaleFactor: 2, hasTouch: true },
};

async function looksRight(page, name) {
  await shoot(page, name, false);
  const overflow = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  assert.equal(overflow, 0);
  assert.deepEqual(await violations(page), []);
}

async function violations(page) {
  await page.evaluate(axe);
  const results = await page.evaluate(() => globalThis.axe.run({ rules: { 'target-size': { enabled: true } } }));
  return results.violations.map(
    ({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ target, failureSummary }) => `${target} ${failureSummary}`).join(' | ')}`,
  );
}

async function shoot(page, name, fullPage = true) {
  await mkdir(SHOTS, { recursive: true });
  await page.screenshot({ path: `${SHOTS}/${name}.png`, fullPage });
}

for (const [state, path] of Object.entries(STATES)) {
  for (const colorScheme of ['light', 'dark']) {
    test(`${state}, ${colorScheme}: axe finds nothing`, async () => {
      await withPage(context, { path, colorScheme, viewport: DESKTOP }, async (page) => {
        await mounted(page);
        await shoot(page, `${state}-${colorScheme}`);
        assert.deepEqual(await violations(page), []);
      });
    });
  }

  test(`${state}: fits a phone`, async () => {
    await withPage(context, { path, viewport: PHONE, deviceScaleFactor: 2, hasTouch: true }, async (page) => {
      await mounted(page);
      await shoot(page, `${state}-phone`);
      const overflow = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.equal(overflow, 0);
      assert.deepEqual(await violations(page), []);
    });
  });
}

for (const [view, options] of Object.entries(VIEWS)) {
  for (const [name, step] of Object.entries(STEPS)) {
    test(`${name}, ${view}: axe finds nothing`, async () => {
      await withPage(context, options, async (page) => {
        await mounted(page);
        await step(page);
        await looksRight(page, `${name}-${view}`);
      });
    });
  }

  for (const [name, answer] of Object.entries(LISTLESS)) {
    test(`${name}, ${view}: axe finds nothing`, async () => {
      const before = (browserContext) => browserContext.route('**/models.json', answer);
      await withPage(context, { before, mayFail: 'models.json', ...options }, async (page) => {
        await page.locator('.verdict').getByText(/Loading the models|did not load/).waitFor();
        await looksRight(page, `${name}-${view}`);
      });
    });
  }
}

test('fits a wide screen', async () => {
  await withPage(context, { viewport: { width: 1920, height: 1080 } }, async (page) => {
    await mounted(page);
    await shoot(page, 'answer-wide');
  });
});
