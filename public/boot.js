// Starts the page: the half of the program that its first view runs, then the other half behind it. `cargo xtask build`
// puts the names of the files in. Under `cargo xtask serve` the program is whole, and this is not there.

import init from './{program}';
import { unpacking } from './unpack.js';

const SECOND = './{second}';
const FIRST = './{first}';
const UNPACK = './{unpack}';
const AT_LATEST_MS = 2000;
const RETRY_MS = [1000, 3000, 10000, 30000];

let unpacker;
let first;
let compiled;
let isHere = false;
let arrived;

// The second half takes its places in the first one's table of functions.
function join(exports) {
  if (isHere) return;
  new WebAssembly.Instance(compiled, { first: exports });
  isHere = true;
  arrived?.();
}

// At once, whatever it costs: something was asked of the second half before it came, which what is held below is there to
// prevent.
globalThis.kvLoadSecondHalf = (exports) => {
  if (!compiled) {
    const request = new XMLHttpRequest();
    request.open('GET', new URL(SECOND, import.meta.url), false);
    // such a request gives no bytes but as text
    request.overrideMimeType('text/plain; charset=x-user-defined');
    request.send();
    if (request.status !== 200) throw new Error(`the server answered ${request.status}`);
    const turns = unpacking(unpacker, Uint8Array.from(request.responseText, (c) => c.charCodeAt(0)), first);
    let turn = turns.next();
    while (!turn.done) turn = turns.next();
    compiled = new WebAssembly.Module(turn.value);
  }
  join(exports);
};

// Anew where it was damaged on its way, for a browser may keep it for good.
async function fetched(name, turn = 0) {
  const response = await fetch(new URL(name, import.meta.url), { cache: turn ? 'reload' : 'default' });
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

// The page goes on between two pieces.
async function unpacked(packed, behind) {
  const turns = unpacking(unpacker, packed, behind);
  let turn = turns.next();
  while (!turn.done) {
    await new Promise((resolve) => setTimeout(resolve));
    turn = turns.next();
  }
  return turn.value;
}

// Its bytes are kept, for the second half is packed behind them.
async function firstHalf(turn) {
  const [packed, module] = await Promise.all([fetched(FIRST, turn), fetched(UNPACK, turn)]);
  unpacker = await WebAssembly.compile(module);
  first = await unpacked(packed);
  return { module_or_path: await WebAssembly.compile(first) };
}

async function secondHalf(turn, coming = fetched(SECOND, turn)) {
  return WebAssembly.compile(await unpacked(await coming, first));
}

// Tried until it is there; meanwhile the page says so.
async function atLast(load) {
  for (let turn = 0; ; turn += 1) {
    try {
      const loaded = await load(turn);
      document.getElementById('not-loaded')?.remove();
      return loaded;
    } catch (error) {
      console.warn(`Part of the page did not load (${error.message}); it is tried again.`);
      if (!document.getElementById('not-loaded')) {
        const notice = document.createElement('p');
        Object.assign(notice, { id: 'not-loaded', role: 'alert' });
        notice.textContent = 'Part of the page did not load. It is tried again until it does.';
        document.body.prepend(notice);
      }
      const pause = RETRY_MS[Math.min(turn, RETRY_MS.length - 1)];
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

// What is clicked or pasted before the second half is here waits for it, and the page does not.
function hold() {
  let held;
  const of = (target) => target.closest('[data-cell], [data-toggle], [data-export], button, #paste');
  const again = (was) => {
    if (was.isConnected) return was;
    // drawn anew
    for (const name of ['data-cell', 'data-toggle', 'data-export']) {
      const value = was.getAttribute(name);
      if (value !== null) return document.querySelector(`[${name}="${CSS.escape(value)}"]`);
    }
    return null;
  };
  const onEvent = (event) => {
    const target = event.target instanceof Element && of(event.target);
    if (!event.isTrusted || !target || (event.type === 'click') === (target.id === 'paste')) return;
    event.stopImmediatePropagation();
    held = [event.type, target];
  };
  for (const type of ['click', 'input']) addEventListener(type, onEvent, true);
  // the arrow keys walk among answers
  const onKey = (event) => event.target instanceof Element && event.target.closest('table') && event.stopImmediatePropagation();
  addEventListener('keydown', onKey, true);
  return () => {
    for (const type of ['click', 'input']) removeEventListener(type, onEvent, true);
    removeEventListener('keydown', onKey, true);
    // once the answers are drawn
    setTimeout(() => {
      const [type, target] = held ?? [];
      if (type === 'click') again(target)?.click();
      else target?.dispatchEvent(new Event('input', { bubbles: true }));
    });
  };
}

// The first sign that somebody wants more than the first answer; or a moment later, so that all of it is there offline.
function interest() {
  return new Promise((resolve) => {
    const signs = ['pointermove', 'pointerdown', 'touchstart', 'wheel', 'scroll', 'keydown', 'focusin'];
    for (const sign of signs) addEventListener(sign, resolve, { once: true, passive: true, capture: true });
    const answer = document.getElementById('answer');
    if (answer) new IntersectionObserver((seen) => seen.some((it) => it.isIntersecting) && resolve()).observe(answer);
    setTimeout(resolve, AT_LATEST_MS);
  });
}

if (location.search || location.hash) {
  // another question than the first: it takes all of the program
  const coming = fetched(SECOND);
  coming.catch(() => undefined);
  const program = await atLast(firstHalf);
  compiled = await atLast((turn) => secondHalf(turn, turn ? undefined : coming));
  join(await init(program));
} else {
  globalThis.kvSecondHalf = new Promise((resolve) => {
    arrived = resolve;
  });
  const release = hold();
  const exports = await init(await atLast(firstHalf));
  await interest();
  const later = await atLast(secondHalf);
  compiled ??= later;
  join(exports);
  release();
}
