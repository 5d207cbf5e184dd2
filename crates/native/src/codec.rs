//! A row into its slot and back, on a host: what the kernels of `kernels/cache.cu` do, in the same steps.

use crate::format::{Encoding, Floor, Groups, Piece, RowFormat, ScaleForm, TensorScale};
use crate::number::{
    E4M3_MAX, bfloat16, ceil_log2, e4m3, exp2, from_bfloat16, from_e4m3, from_ue8m0, ue8m0,
};

/// What numbers are divided by where each layer has a scale of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TensorScales {
    /// Of K, and of MLA's whole row.
    pub k: f32,
    /// Of V.
    pub v: f32,
}

impl Default for TensorScales {
    fn default() -> Self {
        Self { k: 1.0, v: 1.0 }
    }
}

impl TensorScales {
    const fn of(self, which: TensorScale) -> f32 {
        match which {
            TensorScale::K => self.k,
            TensorScale::V => self.v,
        }
    }
}

/// The least number that a group or its scale counts as.
const LEAST: f32 = 1e-4;

/// The exponent of the scale of a group.
fn exponent(groups: &Groups, numbers: impl Iterator<Item = f32>) -> i32 {
    let largest = numbers.map(f32::abs).fold(0.0, f32::max);
    ceil_log2(match groups.floor {
        Floor::Largest => largest.max(LEAST) / E4M3_MAX,
        Floor::Scale => (largest / E4M3_MAX).max(LEAST),
    })
}

#[allow(clippy::cast_possible_truncation)] // a page is in memory
const fn index(offset: u64) -> usize {
    offset as usize
}

/// Stores a head's row of one state in a page.
pub(crate) fn store(
    format: &RowFormat,
    page: &mut [u8],
    (head, state): (u64, u64),
    row: &[f32],
    scales: TensorScales,
) {
    for piece in &format.pieces {
        let at = index(format.at(piece.span, head, state));
        let numbers = &row[index(piece.first)..index(piece.first + piece.elements)];
        match piece.encoding {
            Encoding::Float32 => put(page, at, numbers.iter().map(|number| number.to_le_bytes())),
            Encoding::Bfloat16 => put(
                page,
                at,
                numbers.iter().map(|number| bfloat16(*number).to_le_bytes()),
            ),
            Encoding::E4m3(which) => {
                let scale = scales.of(which);
                put(
                    page,
                    at,
                    numbers.iter().map(|number| [e4m3(number / scale)]),
                );
            }
            Encoding::E4m3Groups(groups) => {
                let scales_at = index(format.at(groups.scales, head, state));
                store_groups(&groups, page, (at, scales_at), numbers);
            }
        }
    }
    if let Some(zero) = format.zero {
        page[index(format.at(zero, head, state))] = 0;
    }
}

fn store_groups(groups: &Groups, page: &mut [u8], (at, scales_at): (usize, usize), row: &[f32]) {
    let size = index(groups.elements);
    for (number, group) in row.chunks(size).enumerate() {
        let first = |value: &f32| {
            if groups.through_bfloat16 {
                from_bfloat16(bfloat16(*value))
            } else {
                *value
            }
        };
        let exponent = exponent(groups, group.iter().map(first));
        let inverse = exp2(-exponent);
        let codes = group.iter().map(|value| [e4m3(first(value) * inverse)]);
        put(page, at + number * size, codes);
        match groups.form {
            ScaleForm::Ue8m0 => page[scales_at + number] = ue8m0(exponent),
            ScaleForm::Float32 => {
                let scale = exp2(exponent).to_le_bytes();
                put(page, scales_at + 4 * number, [scale].into_iter());
            }
            ScaleForm::Ue8m0FourTimes => {
                put(
                    page,
                    scales_at + 4 * number,
                    [[ue8m0(exponent); 4]].into_iter(),
                );
            }
        }
    }
}

fn put<const N: usize>(page: &mut [u8], mut at: usize, values: impl Iterator<Item = [u8; N]>) {
    for bytes in values {
        page[at..at + N].copy_from_slice(&bytes);
        at += N;
    }
}

/// Reads a head's row of one state from a page.
pub(crate) fn load(
    format: &RowFormat,
    page: &[u8],
    (head, state): (u64, u64),
    row: &mut [f32],
    scales: TensorScales,
) {
    for piece in &format.pieces {
        let numbers = &mut row[index(piece.first)..index(piece.first + piece.elements)];
        let at = index(format.at(piece.span, head, state));
        for (element, number) in numbers.iter_mut().enumerate() {
            *number = match piece.encoding {
                Encoding::Float32 => f32::from_le_bytes(get(page, at + 4 * element)),
                Encoding::Bfloat16 => {
                    from_bfloat16(u16::from_le_bytes(get(page, at + 2 * element)))
                }
                Encoding::E4m3(which) => from_e4m3(page[at + element]) * scales.of(which),
                Encoding::E4m3Groups(groups) => {
                    let group = element / index(groups.elements);
                    from_e4m3(page[at + element]) * scale(format, piece, page, (head, state), group)
                }
            };
        }
    }
}

/// The scale of a group as it is stored.
fn scale(
    format: &RowFormat,
    piece: &Piece,
    page: &[u8],
    (head, state): (u64, u64),
    group: usize,
) -> f32 {
    let Encoding::E4m3Groups(groups) = piece.encoding else {
        return 1.0;
    };
    let at = index(format.at(groups.scales, head, state));
    match groups.form {
        ScaleForm::Ue8m0 => from_ue8m0(page[at + group]),
        ScaleForm::Float32 => f32::from_le_bytes(get(page, at + 4 * group)),
        ScaleForm::Ue8m0FourTimes => from_ue8m0(page[at + 4 * group]),
    }
}

fn get<const N: usize>(page: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&page[at..at + N]);
    bytes
}
