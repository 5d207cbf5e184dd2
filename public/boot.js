// Starts the page: the half of the program that its first view runs, then the other half behind it. `cargo xtask build`
// puts the names of the files in. Under `cargo xtask serve` the program is whole, and this is not there.

import init from './{program}';

const SECOND = './{second}';
const FIRST = './{first}';
const AT_LATEST_MS = 2000;
const RETRY_MS = [1000, 3000, 10000, 30000];

let compiled;
let isHere = false;
let arrived;

// The second half takes its places in the first one's table of functions.
function join(first) {
  if (isHere) return;
  new WebAssembly.Instance(compiled, { first });
  isHere = true;
  arrived?.();
}

// At once, whatever it costs: something was asked of the second half before it came.
globalThis.kvLoadSecondHalf = (first) => {
  if (!compiled) {
    const request = new XMLHttpRequest();
    request.open('GET', new URL(SECOND, import.meta.url), false);
    // such a request gives no bytes but as text
    request.overrideMimeType('text/plain; charset=x-user-defined');
    request.send();
    compiled = new WebAssembly.Module(Uint8Array.from(request.responseText, (c) => c.charCodeAt(0)));
  }
  join(first);
};

async function compile() {
  const response = await fetch(new URL(SECOND, import.meta.url));
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  // not streamed: a plain file server may not name its kind
  return WebAssembly.compile(await response.arrayBuffer());
}

async function compileAtLast() {
  for (let turn = 0; ; turn += 1) {
    try {
      return await compile();
    } catch (error) {
      console.warn(`The rest of the page did not load (${error.message}); it is tried again.`);
      const pause = RETRY_MS[Math.min(turn, RETRY_MS.length - 1)];
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
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

const program = { module_or_path: new URL(FIRST, import.meta.url) };
if (location.search || location.hash) {
  // another question than the first: it takes all of the program
  compiled = await compile().catch(() => undefined);
  const first = await init(program);
  if (compiled) join(first);
} else {
  globalThis.kvSecondHalf = new Promise((resolve) => {
    arrived = resolve;
  });
  const first = await init(program);
  await interest();
  const later = await compileAtLast();
  compiled ??= later;
  join(first);
}
