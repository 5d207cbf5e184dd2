// The matrix at work: sorted, filtered, folded, taken along, and all of it kept in the address and by the keyboard.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { setUp, withPage } from './harness.mjs';
import { addressHas, mounted, parts } from './page.mjs';

const context = setUp();

/** The controls around the matrix. */
function tools(page) {
  const only = page.getByRole('group', { name: 'Only these architectures' });
  return {
    sort: page.getByRole('combobox', { name: 'Sort' }),
    memory: page.getByRole('combobox', { name: 'Memory' }),
    only: (arch) => only.getByRole('button', { name: arch, exact: true }),
    fold: (arch) => page.getByRole('button', { name: new RegExp(`^${arch} ·`) }),
    status: page.locator('.tools [role="status"]'),
    open: page.getByRole('button', { name: 'Export', exact: true }),
    menu: page.locator('#export'),
  };
}

/** Each row's GPUs, from the top. */
function rows(page) {
  return page
    .locator('.matrix tbody tr:not(.arch)')
    .evaluateAll((all) => all.map((row) => [...row.querySelectorAll('[data-gpu]')].map((gpu) => gpu.dataset.gpu)));
}

/** What a column says, from the top. */
function column(page, dtype, part) {
  return page.locator(`td[data-dtype="${dtype}"] ${part}`).allInnerTexts();
}

/** What is focused: a button's name, or a cell's GPU and dtype. */
function focused(page) {
  return page.evaluate(() => {
    const { id, dataset } = document.activeElement;
    return id || dataset.dtype || document.activeElement.innerText;
  });
}

test('sorted by requests, the most are first; by outcome, the best', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { sort } = tools(page);
    const { chosen, table } = parts(page);
    assert.equal(await table.locator('[aria-sort]').count(), 0);
    await sort.selectOption('fit');
    const fits = (await column(page, 'auto', '.fits')).map((text) => Number(text.replace(/[^0-9.]/g, '')));
    assert.ok(fits.length > 3);
    assert.deepEqual(fits, fits.toSorted((a, b) => b - a));
    assert.equal(await table.locator('.arch').count(), 0, 'one list');
    assert.equal(await table.locator('[aria-sort="descending"]').innerText(), 'auto');
    assert.match(await table.locator('tbody th').first().innerText(), /SM\d+/, 'each row says its architecture');
    await sort.selectOption('outcome');
    await parts(page).cell('b200', 'fp8').click();
    const outcomes = await column(page, 'fp8', '.outcome');
    const order = ['works', 'becomes', 'unverified', 'does not fit', 'refused', 'unmodelled'];
    const places = outcomes.map((text) => order.findIndex((word) => text.includes(word)));
    assert.deepEqual(places, places.toSorted((a, b) => a - b));
    assert.equal(await table.locator('[aria-sort]').innerText(), 'fp8');
    assert.equal(await chosen.getAttribute('data-dtype'), 'fp8');
    await addressHas(page, 'sort=outcome');
    await page.reload();
    await mounted(page);
    assert.equal(await sort.inputValue(), 'outcome');
  });
});

test('filters leave the GPUs that pass, and the chosen one, marked', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { only, memory, status } = tools(page);
    const { cell, table } = parts(page);
    assert.equal(await status.innerText(), '');
    await only('SM120').click();
    assert.equal(await only('SM120').getAttribute('aria-pressed'), 'true');
    await memory.selectOption('96-');
    assert.equal(await status.innerText(), '4 of 28 GPUs');
    assert.match(await table.locator('.outside th').innerText(), /H200 SXM[\s\S]*chosen, but filtered out/);
    assert.equal((await rows(page)).flat().length, 5);
    await cell('rtx-pro-6000-ws', 'auto').click();
    assert.equal(await table.locator('.outside').count(), 0);
    assert.equal((await rows(page)).flat().length, 4);
    await addressHas(page, 'arch=SM120&mem=96-');
    await page.reload();
    await mounted(page);
    assert.equal(await status.innerText(), '4 of 28 GPUs');
    assert.equal(await memory.inputValue(), '96-');
    await only('SM120').click();
    await memory.selectOption('');
    assert.equal(await status.innerText(), '');
    await page.waitForFunction(() => !/arch|mem/.test(location.search));
  });
});

test('headings fold their rows with the keyboard, and keep the focus and the chosen row', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { fold } = tools(page);
    const { table } = parts(page);
    const before = await rows(page);
    await fold('SM120').focus();
    await page.keyboard.press('Enter');
    assert.equal(await fold('SM120').getAttribute('aria-expanded'), 'false');
    assert.equal(await focused(page), 'fold-SM120');
    assert.match(await fold('SM120').innerText(), /13 GPUs/);
    assert.ok((await rows(page)).length < before.length);
    await fold('SM90').focus();
    await page.keyboard.press('Space');
    const left = await rows(page);
    assert.ok(left[0].includes('h200-sxm-141gb'), 'the chosen GPU stays');
    assert.equal(await table.locator('.arch').count(), 3);
    assert.equal(await table.locator('td[tabindex="0"]').count(), 1);
    await addressHas(page, 'fold=SM90,SM120');
    await page.reload();
    await mounted(page);
    assert.deepEqual(await rows(page), left);
    await fold('SM90').click();
    await fold('SM120').click();
    assert.deepEqual(await rows(page), before);
  });
});

test('the arrow keys walk what is seen', async () => {
  await withPage(context, { path: '?rows=each&sort=fit&arch=SM100&gpu=b200' }, async (page) => {
    await mounted(page);
    const { chosen, gpu } = parts(page);
    const order = (await rows(page)).flat();
    assert.equal(order.length, 5);
    await chosen.focus();
    await page.keyboard.press('PageUp');
    const walked = [await gpu.inputValue()];
    for (let step = 1; step < order.length; step += 1) {
      await page.keyboard.press('ArrowDown');
      walked.push(await gpu.inputValue());
    }
    assert.deepEqual(walked, order);
    await page.keyboard.press('End');
    const last = await page.locator('.matrix thead th').last().innerText();
    assert.equal(await focused(page), last);
    assert.equal(await page.locator('[aria-sort]').innerText(), last);
    await page.keyboard.press('Home');
    assert.equal(await focused(page), 'auto');
    assert.notEqual(await chosen.evaluate((cell) => getComputedStyle(cell).outlineStyle), 'none');
  });
});

test('the chosen GPU can be left for those that pass, with the focus', async () => {
  await withPage(context, { path: '?arch=SM120' }, async (page) => {
    await mounted(page);
    const { chosen, gpu, table } = parts(page);
    await chosen.focus();
    await page.keyboard.press('ArrowDown');
    assert.notEqual(await gpu.inputValue(), 'h200-sxm-141gb');
    assert.equal(await table.locator('.outside').count(), 0);
    assert.equal(await focused(page), 'auto');
    assert.ok(await chosen.evaluate((cell) => cell === document.activeElement));
  });
});

test('the matrix is saved as it is filtered: CSV, JSON and Markdown', async () => {
  const path = '?arch=SM100&fold=SM100&sort=fit&VLLM_KV_CACHE_LAYOUT=%3D%22a%22%2Cb';
  await withPage(context, { path }, async (page) => {
    await mounted(page);
    const { open, menu } = tools(page);
    await open.click();
    const saved = async (format) => {
      const download = page.waitForEvent('download');
      await menu.getByRole('button', { name: `Save ${format}` }).click();
      const file = await download;
      return [file.suggestedFilename(), await readFile(await file.path(), 'utf8')];
    };
    const [csvName, csv] = await saved('CSV');
    assert.equal(csvName, 'kv-cache-DeepSeek-V4-Flash-0.33.0.csv');
    const [question, names, first] = csv.split('\r\n');
    assert.match(question, /^model,deepseek-ai\/DeepSeek-V4-Flash,release,0\.33\.0,context_length,262144,pool,estimated,command,/);
    assert.match(names, /^gpu,label,arch,memory_mib,kv_cache_dtype,outcome,/);
    assert.match(first, /,SM100,/);
    const [jsonName, json] = await saved('JSON');
    assert.match(jsonName, /\.json$/);
    const { command, cells } = JSON.parse(json);
    assert.match(command, /^VLLM_KV_CACHE_LAYOUT='="a",b' vllm serve .* --kv-cache-dtype \$DTYPE/);
    assert.equal(cells.length, csv.trim().split('\r\n').length - 2);
    assert.equal(new Set(cells.map(({ gpu }) => gpu)).size, 5, 'the chosen H200 is left out');
    const [markdownName, markdown] = await saved('Markdown');
    assert.match(markdownName, /\.md$/);
    assert.match(markdown, /^\| B200 \| b200 \| SM100 \| 183,359 \|/m);
  });
});

test('the matrix is copied, and Escape closes the menu', async () => {
  const permissions = ['clipboard-read', 'clipboard-write'];
  await withPage(context, { permissions }, async (page) => {
    await mounted(page);
    const { open, menu } = tools(page);
    await open.focus();
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    assert.equal(await focused(page), 'Copy CSV');
    await page.keyboard.press('Enter');
    await menu.getByRole('button', { name: 'Copied' }).waitFor();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(copied, /^model,deepseek-ai\/DeepSeek-V4-Flash,/);
    await menu.getByRole('button', { name: 'Copy CSV' }).waitFor();
    await page.keyboard.press('Escape');
    assert.equal(await menu.isVisible(), false);
    assert.equal(await focused(page), 'Export');
  });
});

test('an address that makes no sense is named, and shows everything', async () => {
  await withPage(context, { path: '?sort=price&arch=SM80&mem=81-&fold=x' }, async (page) => {
    await mounted(page);
    assert.equal(await page.locator('#address-problems li').count(), 4);
    assert.equal((await rows(page)).flat().length, 28);
  });
});

test('looking at it otherwise takes a frame, not an answer', async () => {
  await withPage(context, { path: '?rows=each&dtypes=all' }, async (page) => {
    await mounted(page);
    const slowest = await page.evaluate(async () => {
      const select = document.getElementById('matrix-sort');
      let most = 0;
      for (const sort of ['fit', 'outcome', 'arch', 'fit', 'arch']) {
        const start = performance.now();
        select.value = sort;
        select.dispatchEvent(new Event('change', { bubbles: true }));
        await new Promise((resolve) => setTimeout(resolve));
        document.body.offsetHeight;
        most = Math.max(most, performance.now() - start);
      }
      return most;
    });
    console.log(`sorting 28 × 22 cells: ${slowest.toFixed(1)} ms at most`);
    assert.ok(slowest < 1000);
  });
});

test('the menu closes when the focus leaves it', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const { open, menu } = tools(page);
    await open.focus();
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    assert.ok(await menu.evaluate((element) => element.contains(document.activeElement)));
    await page.keyboard.press('Shift+Tab');
    assert.ok(await menu.isVisible(), 'back on its button it stays');
    for (let turn = 0; turn < 8; turn += 1) await page.keyboard.press('Tab');
    assert.ok(!(await menu.evaluate((element) => element.contains(document.activeElement))));
    assert.ok(!(await menu.isVisible()));
  });
});

test('a row of several GPUs has names as heavy as a row of one', async () => {
  await withPage(context, {}, async (page) => {
    await mounted(page);
    const fonts = await page.locator('.matrix [data-gpu]').evaluateAll((all) =>
      all.map((name) => `${getComputedStyle(name).fontWeight} ${getComputedStyle(name).fontSize}`));
    assert.equal(new Set(fonts).size, 1);
  });
});

for (const width of [390, 1300]) {
  test(`${width} px: what scrolls sideways fades out until its end, and the keyboard reaches it`, async () => {
    await withPage(context, { viewport: { width, height: 800 } }, async (page) => {
      await mounted(page);
      for (const summary of await page.locator('.charts summary').all()) await summary.click();
      const scrollers = page.locator('.scroll');
      let cut = 0;
      for (const scroller of await scrollers.all()) {
        const fade = () => scroller.evaluate(async (element) => {
          await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
          const { maskImage, maskPosition } = getComputedStyle(element);
          return maskImage === 'none' ? 'none' : maskPosition;
        });
        if (await scroller.evaluate((element) => element.scrollWidth <= element.clientWidth)) {
          assert.equal(await fade(), 'none');
          continue;
        }
        cut += 1;
        assert.match(await fade(), /^-40px/);
        await scroller.evaluate((element) => element.scrollTo({ left: element.scrollWidth }));
        assert.match(await fade(), /^0(px|%)/);
        const reached = await scroller.evaluate((element) =>
          element.querySelector('[tabindex="0"]') !== null || (element.tabIndex === 0 && element.ariaLabel !== null));
        assert.ok(reached);
      }
      assert.ok(cut >= (width < 400 ? 4 : 1), `${cut} are cut`);
    });
  });
}
