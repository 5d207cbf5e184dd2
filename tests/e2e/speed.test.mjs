// From the slider to the frame, in the built page, in the processor's time: what a person waits for on a quiet
// machine, whatever else runs on this one.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setUp, withPage } from './harness.mjs';
import { mounted } from './page.mjs';

/** What a person should wait at most; printed beside each figure. */
const AIM_MS = 50;
/** Slow processors get room; a regression of several times does not. */
const LIMIT_MS = 250;
const STEPS = 40;

const context = setUp();

/** How long the page waits for the slider to rest, and then some. */
const REST_MS = 160;
const RESTS = 12;

/** Moves the slider step by step, each with a frame of its own; or with a rest after each. */
async function drag([steps, rest]) {
  const slider = document.querySelector('input[type="range"]');
  for (let step = 0; step < steps; step += 1) {
    slider.value = String(20 + step);
    slider.dispatchEvent(new Event('input', { bubbles: true }));
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, rest)));
  }
}

async function measure(page, title) {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const metrics = async () => {
    const { metrics: list } = await session.send('Performance.getMetrics');
    return Object.fromEntries(list.map(({ name, value }) => [name, value * 1000]));
  };
  const take = async (steps, rest, what) => {
    await page.evaluate(drag, [steps, rest]);
    const before = await metrics();
    await page.evaluate(drag, [steps, rest]);
    const after = await metrics();
    const each = (name) => (after[name] - before[name]) / steps;
    const all = each('TaskDuration');
    console.log(
      `${title}, ${what}: ${all.toFixed(1)} ms a step (script ${each('ScriptDuration').toFixed(1)}, style ${each('RecalcStyleDuration').toFixed(1)}, layout ${each('LayoutDuration').toFixed(1)}; aim ${AIM_MS})`,
    );
    assert.ok(all > 0 && all < LIMIT_MS, `${title}, ${what}: ${all} ms`);
  };
  await take(STEPS, 0, 'dragged');
  await take(RESTS, REST_MS, 'at rest');
}

test('the slider, with the matrix as it opens', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    await measure(page, 'slider, rows merged');
  });
});

test('the slider, with every GPU and every dtype', async () => {
  await withPage(context, { path: '?rows=each&dtypes=all' }, async (page) => {
    await mounted(page);
    await measure(page, 'slider, 28 × 22 cells');
  });
});
