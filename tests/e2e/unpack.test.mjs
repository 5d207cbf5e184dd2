// What the page's program is packed with: whole as it is published, and damaged.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { packed, unpack } from './program.mjs';

const { module, first, second } = await packed();
const whole = unpack(module, first);

test('both halves are modules, unpacked in pieces, the second behind the first', async () => {
  await WebAssembly.compile(whole.bytes);
  const behind = unpack(module, second, whole.bytes);
  const half = await WebAssembly.compile(behind.bytes);
  assert.deepEqual(new Set(WebAssembly.Module.imports(half).map((it) => it.module)), new Set(['first']));
  for (const [bytes, from] of [[whole, first], [behind, second]]) {
    assert.equal(bytes.pieces, Math.ceil(bytes.bytes.length / (128 * 1024)));
    assert.ok(from.length < bytes.bytes.length / 2.5, `${from.length} of ${bytes.bytes.length}`);
  }
});

test('what is damaged on its way ends, and is no module', async () => {
  const compiled = async (bytes, behind) => WebAssembly.compile(unpack(module, bytes, behind).bytes);
  for (let place = 0; place < 24; place += 1) {
    const damaged = first.slice();
    damaged[9 + place * 997] ^= 0x55;
    await assert.rejects(compiled(damaged), `at ${place}`);
  }
  await assert.rejects(compiled(first.slice(0, 50_000)), /damaged/);
  await assert.rejects(compiled(new Uint8Array(3)), /damaged/);
  await assert.rejects(compiled(second, second), 'behind other bytes');
  await assert.rejects(compiled(new Uint8Array(40).fill(255)), 'four gigabytes of nothing');
});
