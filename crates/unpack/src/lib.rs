//! The page's program, packed by LZMA: a fifth less than gzipped, and as little where a server compresses nothing.
//!
//! `pack` is for those who publish, [`Unpacker`] for those who read. In the browser the latter is a module of 12 kB
//! (`browser.rs` has its exports), which `public/boot.js` runs before anything else: in JavaScript it would take five times as
//! long while the code is cold.
//!
//! Packed bytes begin with the length and the checksum of what they hold, in four bytes each, least first; then comes the
//! stream. LZMA would not tell of a bit that turned, and what it makes of it may still be a program: another one.

#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

#[cfg(target_arch = "wasm32")]
mod browser;
#[cfg(not(target_arch = "wasm32"))]
mod pack;

use alloc::vec::Vec;

use lzma_rust2::{Action, LzmaStream};
#[cfg(not(target_arch = "wasm32"))]
pub use pack::pack;

// Of the three numbers that a decoder must know: WebAssembly has no alignment, so the position tells nothing.
const LITERAL_CONTEXT_BITS: u32 = 3;
const LITERAL_POSITION_BITS: u32 = 0;
const POSITION_BITS: u32 = 0;

/// The bytes are not what was packed, or not behind what they were packed behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

/// Unpacks, a piece at a time.
pub struct Unpacker {
    stream: LzmaStream,
    packed: Vec<u8>,
    from: usize,
    remaining: usize,
    checksum: u32,
    expected: u32,
}

impl Unpacker {
    /// Begins to unpack what was packed behind other bytes.
    ///
    /// # Errors
    /// Where the packed bytes have no length.
    pub fn new(packed: Vec<u8>, behind: &[u8]) -> Result<Self, Damaged> {
        let head: &[u8; 8] = packed.first_chunk().ok_or(Damaged)?;
        let [a, b, c, d, checksum @ ..] = *head;
        let length = u32::from_le_bytes([a, b, c, d]);
        let stream = LzmaStream::new(
            u64::from(length),
            LITERAL_CONTEXT_BITS,
            LITERAL_POSITION_BITS,
            POSITION_BITS,
            reach(length as usize, behind.len()),
            Some(behind),
        );
        Ok(Self {
            stream: stream.map_err(|_| Damaged)?,
            from: head.len(),
            packed,
            remaining: length as usize,
            checksum: CHECKSUM_OF_NOTHING,
            expected: u32::from_le_bytes(checksum),
        })
    }

    /// Bytes that are still to come.
    pub fn remaining(&self) -> usize {
        self.remaining
    }

    /// Unpacks the next bytes, as many as there is room for or as are left.
    ///
    /// # Errors
    /// Where the packed bytes end too soon, or are no stream.
    pub fn fill(&mut self, mut piece: &mut [u8]) -> Result<(), Damaged> {
        while self.remaining > 0 && !piece.is_empty() {
            let packed = self.packed.get(self.from..).ok_or(Damaged)?;
            let step = self
                .stream
                .process(packed, piece, Action::Finish)
                .map_err(|_| Damaged)?;
            if step.bytes_consumed == 0 && step.bytes_produced == 0 {
                return Err(Damaged);
            }
            self.from += step.bytes_consumed;
            self.remaining -= step.bytes_produced;
            let (filled, empty) = piece.split_at_mut(step.bytes_produced);
            self.checksum = checksum(self.checksum, filled);
            piece = empty;
            if self.remaining == 0 && self.checksum != self.expected {
                return Err(Damaged);
            }
        }
        Ok(())
    }
}

const CHECKSUM_OF_NOTHING: u32 = 0x811c_9dc5;

/// FNV-1a, of one piece after another: it is to find accidents.
fn checksum(before: u32, piece: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    piece.iter().fold(before, step)
}

/// How far back the bytes may refer: to the first of those that they are packed behind.
fn reach(length: usize, behind: usize) -> u32 {
    const LEAST: u32 = 4096;
    const MOST: u32 = 1 << 24;
    u32::try_from(length.saturating_add(behind))
        .unwrap_or(MOST)
        .clamp(LEAST, MOST)
        .next_power_of_two()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unpack(packed: Vec<u8>, behind: &[u8], piece: usize) -> Result<Vec<u8>, Damaged> {
        let mut unpacker = Unpacker::new(packed, behind)?;
        let mut bytes = Vec::new();
        while unpacker.remaining() > 0 {
            let mut next = vec![0; piece.min(unpacker.remaining())];
            unpacker.fill(&mut next)?;
            bytes.extend(next);
        }
        Ok(bytes)
    }

    #[test]
    fn what_is_like_what_is_there_costs_little() {
        // nothing in it is like another part of it
        let mut state = 1_u32;
        let behind: Vec<u8> = core::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state.to_le_bytes()[0]
        })
        .take(10_000)
        .collect();
        let bytes = behind.repeat(3);
        let alone = pack(&bytes, &[]).unwrap();
        let packed = pack(&bytes, &behind).unwrap();
        assert!(alone.len() > behind.len());
        assert!(packed.len() < 200, "{}", packed.len());
        assert_eq!(unpack(packed.clone(), &behind, 4096), Ok(bytes));
        assert_ne!(unpack(packed, &alone, 4096).ok(), Some(behind.repeat(3)));
    }

    #[test]
    fn no_bit_turns_unseen() {
        let bytes: Vec<u8> = (0..2000_u32)
            .flat_map(|it| (it * it).to_le_bytes())
            .collect();
        let packed = pack(&bytes, &[]).unwrap();
        for bit in (0..packed.len() * 8).step_by(7) {
            let mut turned = packed.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            let unpacked = unpack(turned, &[], 4096);
            // what the coder writes last may say nothing
            assert!(
                unpacked.as_ref().is_err() || unpacked.as_ref() == Ok(&bytes),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn what_is_cut_is_damaged() {
        let bytes = b"a block, a block, a blocked block".repeat(90);
        let packed = pack(&bytes, &[]).unwrap();
        for length in 0..packed.len() - 8 {
            assert_eq!(unpack(packed[..length].to_vec(), &[], 64), Err(Damaged));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_was_packed_comes_back(
            bytes in prop::collection::vec(0..4_u8, 0..5000),
            behind in prop::collection::vec(0..4_u8, 0..5000),
            piece in 1..3000_usize,
        ) {
            let packed = pack(&bytes, &behind).unwrap();
            prop_assert_eq!(unpack(packed, &behind, piece), Ok(bytes));
        }

        #[test]
        fn nonsense_ends(packed in prop::collection::vec(any::<u8>(), 0..200)) {
            // its length may be any: what the first pieces say is enough
            if let Ok(mut unpacker) = Unpacker::new(packed, &[]) {
                for _ in 0..64 {
                    if unpacker.fill(&mut [0; 4096]).is_err() {
                        break;
                    }
                }
            }
        }
    }
}
