//! Zeroed bytes of the system's, which come page by page as they are touched.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// What views of rows are aligned to.
const ALIGNMENT_BYTES: usize = 256;

/// An allocation.
#[derive(Debug)]
pub(super) struct Region {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the bytes are the region's alone, and are reached through `&self` and `&mut self` only.
unsafe impl Send for Region {}
// SAFETY: as above; `&self` only reads.
unsafe impl Sync for Region {}

impl Region {
    /// So many bytes, if the system has them.
    pub fn new(bytes: u64) -> Option<Self> {
        let size = usize::try_from(bytes).ok()?.max(1);
        let layout = Layout::from_size_align(size, ALIGNMENT_BYTES).ok()?;
        // SAFETY: the layout's size is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { start, layout })
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` has `size` bytes, all initialised, as long as the region lives, and
        // nobody writes to them while `&self` is held.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` is the only way to them.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this very layout, and freed nowhere else.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
