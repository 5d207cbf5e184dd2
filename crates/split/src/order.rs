//! In which order functions stand: like beside like, for what compresses a module sees no further than 32 KiB.

use std::collections::{HashMap, HashSet, VecDeque};

/// Bytes that are alike where two functions are.
const SHINGLE: usize = 6;
/// What DEFLATE sees, and a little less.
const WINDOW_BYTES: usize = 30_000;
/// What more functions than this share says nothing of any.
const MOST_SHARING: usize = 200;
/// So that short functions are not taken for what they have in common with all.
const WEIGHT: u64 = 20;

/// Places of the bodies, in an order in which each is like those before it.
pub fn by_likeness(bodies: &[&[u8]]) -> Vec<usize> {
    let shingles: Vec<HashSet<&[u8]>> = bodies
        .iter()
        .map(|body| body.windows(SHINGLE).collect())
        .collect();
    let mut sharing: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (index, of_body) in shingles.iter().enumerate() {
        for shingle in of_body {
            sharing.entry(shingle).or_default().push(index);
        }
    }
    sharing.retain(|_, bodies| (2..=MOST_SHARING).contains(&bodies.len()));
    // how many of its shingles are in the window now
    let mut alike = vec![0_u64; bodies.len()];
    let mut seen: HashMap<&[u8], u32> = HashMap::new();
    let mut window = VecDeque::new();
    let mut window_bytes = 0;
    let mut left: Vec<usize> = (0..bodies.len()).collect();
    let mut order = Vec::with_capacity(bodies.len());
    while !left.is_empty() {
        let merit = |index: &usize| alike[*index] * 1000 / (shingles[*index].len() as u64 + WEIGHT);
        let mut best = 0;
        for place in 1..left.len() {
            if merit(&left[place]) > merit(&left[best]) {
                best = place;
            }
        }
        let next = left.remove(best);
        order.push(next);
        window.push_back(next);
        window_bytes += bodies[next].len();
        for shingle in &shingles[next] {
            if let Some(others) = sharing.get(shingle) {
                let count = seen.entry(shingle).or_default();
                *count += 1;
                if *count == 1 {
                    for other in others {
                        alike[*other] += 1;
                    }
                }
            }
        }
        while window_bytes > WINDOW_BYTES && window.len() > 1 {
            let Some(gone) = window.pop_front() else {
                break;
            };
            window_bytes -= bodies[gone].len();
            for shingle in &shingles[gone] {
                if let (Some(others), Some(count)) = (sharing.get(shingle), seen.get_mut(shingle)) {
                    *count -= 1;
                    if *count == 0 {
                        for other in others {
                            alike[*other] -= 1;
                        }
                    }
                }
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_body_has_its_place_and_like_ones_are_neighbours() {
        let (a, b) = (
            b"abcdefghijklmnop".as_slice(),
            b"0123456789ABCDEF".as_slice(),
        );
        let order = by_likeness(&[a, b, a, b, a]);
        assert_eq!(order, [0, 2, 4, 1, 3]);
        assert_eq!(by_likeness(&[]), Vec::<usize>::new());
    }
}
