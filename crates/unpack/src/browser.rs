//! The module that the page runs: one stream at a time, each with memory of its own.

use alloc::alloc::{GlobalAlloc, Layout};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::arch::wasm32::{memory_grow, memory_size, unreachable};
use core::cell::Cell;
use core::panic::PanicInfo;
use core::slice;

use crate::Unpacker;

const PAGE_BYTES: usize = 65536;

unsafe extern "C" {
    /// The first byte behind what the linker placed.
    static __heap_base: u8;
}

/// Gives memory and takes none back: the page drops all of it with the module.
struct Growing {
    end: Cell<usize>,
}

// SAFETY: the module has one thread.
unsafe impl Sync for Growing {}

// SAFETY: every piece lies behind the one before it, and inside the memory.
unsafe impl GlobalAlloc for Growing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let end = match self.end.get() {
            0 => &raw const __heap_base as usize,
            end => end,
        };
        let start = end.next_multiple_of(layout.align());
        self.end.set(start + layout.size());
        let has = memory_size::<0>() * PAGE_BYTES;
        let wants = (start + layout.size()).saturating_sub(has);
        if memory_grow::<0>(wants.div_ceil(PAGE_BYTES)) == usize::MAX {
            return core::ptr::null_mut();
        }
        start as *mut u8
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static MEMORY: Growing = Growing { end: Cell::new(0) };

#[panic_handler]
fn stop(_: &PanicInfo) -> ! {
    unreachable()
}

/// Room for some bytes.
#[unsafe(no_mangle)]
pub extern "C" fn room(bytes: usize) -> *mut u8 {
    Box::leak(vec![0; bytes].into_boxed_slice()).as_mut_ptr()
}

/// Begins to unpack `packed` behind `behind`; 0 where that is not packed.
///
/// # Safety
/// Both are places that `room` gave, with their lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn begin(
    packed: *const u8,
    packed_bytes: usize,
    behind: *const u8,
    behind_bytes: usize,
) -> *mut Unpacker {
    // SAFETY: said of the arguments.
    let (packed, behind) = unsafe {
        (
            slice::from_raw_parts(packed, packed_bytes),
            slice::from_raw_parts(behind, behind_bytes),
        )
    };
    match Unpacker::new(Vec::from(packed), behind) {
        Ok(unpacker) => Box::leak(Box::new(unpacker)),
        Err(_) => core::ptr::null_mut(),
    }
}

/// Bytes that are still to come.
#[unsafe(no_mangle)]
pub extern "C" fn remaining(unpacker: &Unpacker) -> usize {
    unpacker.remaining()
}

/// Unpacks the next bytes into `piece`; whether they were good.
///
/// # Safety
/// `piece` lies in what `room` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fill(unpacker: &mut Unpacker, piece: *mut u8, bytes: usize) -> bool {
    // SAFETY: said of the arguments.
    let piece = unsafe { slice::from_raw_parts_mut(piece, bytes) };
    unpacker.fill(piece).is_ok()
}
