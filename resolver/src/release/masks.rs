//! Lists that several releases share: each item with the releases that have it.

/// Which bit of a mask stands for the release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReleaseBit(pub u32);

impl ReleaseBit {
    pub(crate) const fn is_in(self, mask: u16) -> bool {
        mask & (1 << self.0) != 0
    }
}

/// Every release.
pub(crate) const ALL: u16 = 0x3fff;

/// The release of the bit and all after it.
pub(crate) const fn from(bit: u32) -> u16 {
    ALL & (u16::MAX << bit)
}

/// The release of the bit alone.
pub(crate) const fn only(bit: u32) -> u16 {
    1 << bit
}

/// The `N` items that the release has, in the list's order.
pub(crate) const fn pick<T: Copy, const N: usize>(
    list: &[(T, u16)],
    release: ReleaseBit,
) -> [T; N] {
    let mut out = [list[0].0; N];
    let (mut from, mut to) = (0, 0);
    while from < list.len() {
        if release.is_in(list[from].1) {
            out[to] = list[from].0;
            to += 1;
        }
        from += 1;
    }
    assert!(to == N, "the release has another number of items");
    out
}
