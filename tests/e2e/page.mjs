// The page as a person meets it: names for its parts, so that the tests read like what they check.

import { mounted } from './harness.mjs';

/** Opens the page's parts. */
export function parts(page) {
  return {
    verdict: page.locator('.verdict'),
    table: page.getByRole('grid'),
    chosen: page.locator('td[aria-selected="true"]'),
    answer: page.locator('#answer'),
    title: page.locator('#answer-title'),
    length: page.getByRole('textbox', { name: 'Context length' }),
    slider: page.getByRole('slider', { name: 'Context length' }),
    pool: page.getByRole('textbox', { name: 'Pool per GPU' }),
    model: page.getByRole('combobox', { name: 'Model', exact: true }),
    options: page.locator('#models [role="option"]'),
    recognised: page.locator('#recognised'),
    fileProblem: page.locator('#file-problem'),
    gpu: page.getByRole('combobox', { name: 'GPU' }),
    config: page.getByRole('textbox', { name: 'Its config.json' }),
    /** The cell of a GPU and a dtype, whichever row the GPU is in. */
    cell: (gpu, dtype) => page.locator(`tr:has([data-gpu="${gpu}"]) td[data-dtype="${dtype}"]`),
  };
}

/** Waits until the address has caught up, in its query or behind its #: it follows a moment late. */
export async function addressHas(page, text) {
  await page.waitForFunction(
    (wanted) => decodeURIComponent(location.search + location.hash).includes(wanted),
    text,
  );
}

/** The id of what has the focus, and whether all of it is seen. */
export async function focusIs(page, id) {
  await page.waitForFunction((wanted) => document.activeElement.id === wanted, id);
  return page.evaluate(() => {
    const { top, bottom } = document.activeElement.getBoundingClientRect();
    return top >= 0 && bottom <= innerHeight;
  });
}

export { mounted };
