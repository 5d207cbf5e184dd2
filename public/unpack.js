// Unpacks the program's halves, by the module that crates/unpack makes.

// in one go: some milliseconds
const PIECE_BYTES = 128 * 1024;

const whole = (isSo) => {
  if (!isSo) throw new Error('it was damaged on its way');
};

/** Unpacks bytes behind those that they were packed behind, a piece at each turn, and returns them. */
export function* unpacking(module, packed, behind = new Uint8Array()) {
  const { memory, room, begin, remaining, fill } = new WebAssembly.Instance(module).exports;
  const put = (bytes) => {
    const place = room(bytes.length);
    new Uint8Array(memory.buffer, place, bytes.length).set(bytes);
    return [place, bytes.length];
  };
  const stream = begin(...put(packed), ...put(behind));
  whole(stream);
  const size = remaining(stream);
  const place = room(size);
  for (let at = 0; at < size; at += PIECE_BYTES) {
    yield;
    whole(fill(stream, place + at, Math.min(PIECE_BYTES, size - at)));
  }
  return new Uint8Array(memory.buffer, place, size);
}
