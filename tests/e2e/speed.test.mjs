// Input to paint, in the built page: what a person waits for while the slider moves.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setUp, withPage } from './harness.mjs';
import { mounted } from './page.mjs';

/** The aim is 50 ms on a quiet machine; a busy CI gets room, a regression of several times does not. */
const AIM_MS = 50;
const LIMIT_MS = 250;

const context = setUp();

/** Milliseconds from each input event to the frame after it, with the page's own work in between. */
function drag() {
  const slider = document.querySelector('input[type="range"]');
  const step = (position) => new Promise((resolve) => {
    const start = performance.now();
    slider.value = String(position);
    slider.dispatchEvent(new Event('input', { bubbles: true }));
    // the page's work is done in microtasks; the frame comes after
    setTimeout(() => {
      const worked = performance.now() - start;
      document.body.getBoundingClientRect();
      requestAnimationFrame(() => setTimeout(() => resolve([worked, performance.now() - start])));
    });
  });
  return (async () => {
    const times = [];
    for (let position = 20; position < 60; position += 1) times.push(await step(position));
    return times;
  })();
}

function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
}

async function measure(page, title) {
  const times = await page.evaluate(drag);
  const worked = median(times.map(([work]) => work));
  const painted = median(times.map(([, paint]) => paint));
  const worst = Math.max(...times.map(([, paint]) => paint));
  console.log(`${title}: ${worked.toFixed(1)} ms of work, ${painted.toFixed(1)} ms to paint (median of ${times.length}; worst ${worst.toFixed(1)}; aim ${AIM_MS})`);
  assert.ok(worked < LIMIT_MS, `${title}: ${worked} ms`);
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
