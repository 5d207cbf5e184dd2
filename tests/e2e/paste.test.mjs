// Paste a command, a log, an error: what is filled in, what is said of it, what would close a gap.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { addressHas, mounted, parts } from './page.mjs';
import { setUp, withPage } from './harness.mjs';

const SHOTS = fileURLToPath(new URL('../../target/screenshots', import.meta.url));
const context = setUp();

async function paste(page, text) {
  const field = page.locator('#paste');
  if (!(await field.isVisible())) await page.getByText('Paste a command, a log or an error').click();
  await field.fill(text);
  return page.locator('.reading');
}

test('a command fills the form; its flags are told by what they do', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const reading = await paste(page, `docker run --gpus all -e VLLM_KV_CACHE_LAYOUT=HND vllm/vllm-openai:v0.32.0 \\
      --model deepseek-ai/DeepSeek-V3.2 -tp 4 --kv-cache-dtype fp8 --max-model-len 128k --port 8000 --bogus`);
    const { verdict, length, model } = parts(page);
    await verdict.getByText('DeepSeek-V3.2').waitFor();
    assert.match(await verdict.innerText(), /4 × H200 SXM, vLLM 0\.32\.0: fp8/);
    assert.equal(await length.inputValue(), '128000');
    assert.equal(await model.inputValue(), 'deepseek-ai/DeepSeek-V3.2');
    const told = await reading.innerText();
    assert.match(told, /In the form\s+-tp\s+--kv-cache-dtype\s+--max-model-len/);
    assert.match(told, /Does not touch the KV cache\s+--port/);
    assert.match(told, /Not taken\s+--bogus is no option of this release/);
    assert.match(told, /vLLM does not start with this: [\s\S]*unrecognized arguments: --bogus/);
    await addressHas(page, 'VLLM_KV_CACHE_LAYOUT=HND');
    await mkdir(SHOTS, { recursive: true });
    await page.screenshot({ path: join(SHOTS, 'paste-command.png') });
  });
});

test('what has no rule stops the answer, until it is left out', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    await paste(page, 'vllm serve deepseek-ai/DeepSeek-V4-Flash -tp 8 -O3 --quantization fp8');
    const { verdict } = parts(page);
    await verdict.getByText('has no rule').waitFor();
    await addressHas(page, 'unmodelled=optimization_level,quantization');
    await page.getByRole('button', { name: 'Leave out quantization' }).click();
    assert.match(await verdict.innerText(), /has no rule/);
    await page.getByRole('button', { name: 'Leave out all' }).click();
    await verdict.getByText('becomes').waitFor();
    await page.waitForFunction(() => !location.search.includes('unmodelled'));
  });
});

test('a log pins the pool; where it differs, one click takes what would make it equal', async () => {
  await withPage(context, { path: '?pool_gib=40&max_num_batched_tokens=2048' }, async (page) => {
    await mounted(page);
    const printed = await page.locator('.log pre').first().innerText();
    await page.goto(context.server.url);
    await mounted(page);
    const log = ['(EngineCore pid=9) INFO 11-29 10:00:00 [gpu_worker.py:1] Available KV cache memory: 40.00 GiB']
      .concat(printed.split('\n').map((line) => `(EngineCore pid=9) INFO 11-29 10:00:00 [kv_cache_utils.py:1] ${line}`))
      .join('\n');
    const reading = await paste(page, log);
    await reading.getByText('Otherwise than predicted').waitFor();
    assert.match(await reading.innerText(), /max_num_batched_tokens=2048/);
    await page.screenshot({ path: join(SHOTS, 'paste-log.png') });
    await reading.locator('li', { hasText: 'max_num_batched_tokens=2048' }).getByRole('button').click();
    await reading.getByText('As predicted').waitFor();
    await addressHas(page, 'max_num_batched_tokens=2048');
  });
});

test('an error is known by a piece of it; markup in a text stays text', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    let reading = await paste(page, 'ValueError: DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got bfloat16');
    await reading.getByText('vLLM stops while').waitFor();
    assert.match(await reading.innerText(), /ValueError/);
    reading = await paste(page, 'vllm serve "<img src=x onerror=alert(1)>" --kv-cache-dtype "<b>x"');
    await reading.getByText('the catalog has no').waitFor();
    assert.equal(await page.locator('.reading img, .reading b:text("x")').count(), 0);
    reading = await paste(page, 'nothing of the kind');
    await reading.getByText('There is no start of vLLM in it').waitFor();
    await paste(page, '');
    assert.equal(await page.locator('.reading').innerText(), '');
  });
});
