//! What every fuzz target is made of.

pub use libfuzzer_sys;

use kv_hostile::Target;

/// What libFuzzer would do, or what spoils such input by its structure.
pub fn mutate(target: Target, data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    if seed % 4 == 0 {
        return libfuzzer_sys::fuzzer_mutate(data, size, most);
    }
    let spoilt = target.spoil(&data[..size], seed.into(), most);
    let size = spoilt.len().min(most);
    data[..size].copy_from_slice(&spoilt[..size]);
    size
}

/// Fuzzes a target.
#[macro_export]
macro_rules! target {
    ($target:expr) => {
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| {
            $target.check(data);
        });
        $crate::libfuzzer_sys::fuzz_mutator!(|data: &mut [u8],
                                              size: usize,
                                              most: usize,
                                              seed: u32| {
            $crate::mutate($target, data, size, most, seed)
        });
    };
}
