//! How the matrix is looked at: what is shown of it, and in which order. No answer depends on it.

use std::fmt;
use std::str::FromStr;

use kv_resolver::Arch;
use kv_resolver::catalog::CatalogGpu;

/// What is shown of the matrix, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct View {
    /// Whether dtypes that every GPU refuses are shown.
    pub all_dtypes: bool,
    /// Whether each GPU has its own row, alike or not.
    pub row_per_gpu: bool,
    /// The order of the rows.
    pub sort: Sort,
    /// The architectures that are shown; all, if none is named.
    pub only: Archs,
    /// The memory of the GPUs that are shown.
    pub memory: Memory,
    /// The architectures that are folded away under their headings.
    pub folded: Archs,
}

impl View {
    /// Whether a GPU passes the filters.
    pub fn admits(&self, gpu: &CatalogGpu) -> bool {
        let arch = gpu.capability.arch();
        let has_arch = arch.is_some_and(|arch| self.only.has(arch));
        (has_arch || self.only.is_empty()) && self.memory.admits(gpu)
    }

    /// Whether what is shown depends on which cell is chosen: on its dtype, by which rows are sorted, or on its GPU,
    /// which stays.
    pub fn follows_choice(&self) -> bool {
        let unfiltered = Self {
            all_dtypes: self.all_dtypes,
            row_per_gpu: self.row_per_gpu,
            ..Self::default()
        };
        *self != unfiltered
    }

    /// The same GPUs and dtypes with nothing folded or merged.
    #[must_use]
    pub fn unfolded(&self) -> Self {
        Self {
            row_per_gpu: true,
            folded: Archs::default(),
            ..*self
        }
    }

    /// Whether it is on.
    pub fn is_on(&self, toggle: Toggle) -> bool {
        match toggle {
            Toggle::AllDtypes => self.all_dtypes,
            Toggle::RowPerGpu => self.row_per_gpu,
            Toggle::Only(arch) => self.only.has(arch),
            Toggle::Fold(arch) => self.folded.has(arch),
        }
    }

    /// Turns it on or off.
    pub fn flip(&mut self, toggle: Toggle) {
        match toggle {
            Toggle::AllDtypes => self.all_dtypes = !self.all_dtypes,
            Toggle::RowPerGpu => self.row_per_gpu = !self.row_per_gpu,
            Toggle::Only(arch) => self.only.flip(arch),
            Toggle::Fold(arch) => self.folded.flip(arch),
        }
    }
}

/// What one press turns on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toggle {
    /// Dtypes that every GPU refuses.
    AllDtypes,
    /// A row for each GPU.
    RowPerGpu,
    /// An architecture, among those that are shown.
    Only(Arch),
    /// An architecture's rows, folded away.
    Fold(Arch),
}

impl Toggle {
    /// All.
    pub const ALL: [Self; 8] = [
        Self::AllDtypes,
        Self::RowPerGpu,
        Self::Only(Arch::Sm90),
        Self::Only(Arch::Sm100),
        Self::Only(Arch::Sm120),
        Self::Fold(Arch::Sm90),
        Self::Fold(Arch::Sm100),
        Self::Fold(Arch::Sm120),
    ];

    /// Its place among them, by which a button names it.
    pub fn index(self) -> String {
        let place = Self::ALL.iter().position(|toggle| *toggle == self);
        place.unwrap_or_default().to_string()
    }

    /// The one in that place.
    pub fn of_index(index: &str) -> Option<Self> {
        Self::ALL.get(index.parse::<usize>().ok()?).copied()
    }
}

/// The order of the matrix's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// `arch`: by architecture, and within each as in the catalog.
    #[default]
    Arch,
    /// `outcome`: the best outcome of the chosen dtype first.
    Outcome,
    /// `fit`: the most requests with the chosen dtype first.
    Fit,
}

impl Sort {
    /// All, in the order in which they are offered.
    pub const ALL: [Self; 3] = [Self::Arch, Self::Outcome, Self::Fit];

    /// As the address has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Arch => "arch",
            Self::Outcome => "outcome",
            Self::Fit => "fit",
        }
    }

    /// For people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Arch => "by architecture",
            Self::Outcome => "best outcome first",
            Self::Fit => "most requests first",
        }
    }
}

impl FromStr for Sort {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut all = Self::ALL.into_iter();
        all.find(|sort| sort.as_str() == text).ok_or(())
    }
}

/// Some of the architectures; as text, their names with commas between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Archs(u8);

impl Archs {
    const fn bit(arch: Arch) -> u8 {
        1 << arch as u8
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this is one of them.
    pub const fn has(self, arch: Arch) -> bool {
        self.0 & Self::bit(arch) != 0
    }

    /// Adds one, or takes it away.
    pub const fn flip(&mut self, arch: Arch) {
        self.0 ^= Self::bit(arch);
    }
}

impl fmt::Display for Archs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for arch in Arch::ALL.into_iter().filter(|arch| self.has(*arch)) {
            write!(f, "{comma}{arch}")?;
            comma = ",";
        }
        Ok(())
    }
}

impl FromStr for Archs {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut archs = Self::default();
        for name in text.split(',') {
            let mut all = Arch::ALL.into_iter();
            let arch = all.find(|arch| arch.to_string() == name).ok_or(())?;
            archs.0 |= Self::bit(arch);
        }
        Ok(archs)
    }
}

/// A bound on a GPU's memory, in GB as its vendor counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Memory {
    /// Nothing, as text: none.
    #[default]
    Any,
    /// `80-`: so many, or more.
    AtLeast(u64),
    /// `-80`: so many, or less.
    AtMost(u64),
}

impl Memory {
    /// Those that are offered: between them lie the sizes in which GPUs come.
    pub const ALL: [Self; 12] = [
        Self::Any,
        Self::AtLeast(24),
        Self::AtLeast(32),
        Self::AtLeast(48),
        Self::AtLeast(80),
        Self::AtLeast(96),
        Self::AtLeast(141),
        Self::AtLeast(192),
        Self::AtMost(16),
        Self::AtMost(32),
        Self::AtMost(48),
        Self::AtMost(96),
    ];

    /// For people.
    pub fn label(self) -> String {
        match self {
            Self::Any => "any".to_owned(),
            Self::AtLeast(gb) => format!("≥ {gb} GB"),
            Self::AtMost(gb) => format!("≤ {gb} GB"),
        }
    }

    fn admits(self, gpu: &CatalogGpu) -> bool {
        match self {
            Self::Any => true,
            Self::AtLeast(gb) => memory_gb(gpu) >= gb,
            Self::AtMost(gb) => memory_gb(gpu) <= gb,
        }
    }
}

/// A GPU's memory by the name it goes by; where its vendor gives none, in whole GB of what the driver reports.
fn memory_gb(gpu: &CatalogGpu) -> u64 {
    let driver = (gpu.nvml_total_mib << 20) / 1_000_000_000;
    gpu.vendor_memory_gb.unwrap_or(driver)
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => Ok(()),
            Self::AtLeast(gb) => write!(f, "{gb}-"),
            Self::AtMost(gb) => write!(f, "-{gb}"),
        }
    }
}

impl FromStr for Memory {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut all = Self::ALL.into_iter();
        all.find(|memory| memory.to_string() == text).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kv_resolver::catalog::{GPUS, find_gpu};

    #[test]
    fn texts_come_back() {
        for sort in Sort::ALL {
            assert_eq!(sort.as_str().parse(), Ok(sort));
        }
        for memory in Memory::ALL {
            assert_eq!(memory.to_string().parse(), Ok(memory));
        }
        let mut archs = Archs::default();
        for arch in Arch::ALL {
            archs.flip(arch);
            assert_eq!(archs.to_string().parse(), Ok(archs));
        }
        assert_eq!(archs.to_string(), "SM90,SM100,SM120");
        for wrong in ["", "SM89", "SM90,", "SM90;SM100", "sm90 "] {
            assert_eq!(wrong.parse::<Archs>(), Err(()), "{wrong}");
        }
        for wrong in ["80", "81-", "--80", "-0", "80-96"] {
            assert_eq!(wrong.parse::<Memory>(), Err(()), "{wrong}");
        }
        assert_eq!("Fit".parse::<Sort>(), Err(()));
    }

    #[test]
    fn each_toggle_turns_one_thing_on_and_off() {
        for toggle in Toggle::ALL {
            assert_eq!(Toggle::of_index(&toggle.index()), Some(toggle));
            let mut view = View::default();
            view.flip(toggle);
            let on = Toggle::ALL.into_iter().filter(|other| view.is_on(*other));
            assert_eq!(on.collect::<Vec<_>>(), [toggle]);
            view.flip(toggle);
            assert_eq!(view, View::default());
        }
        assert_eq!(Toggle::of_index("8"), None);
        assert_eq!(Toggle::of_index("-1"), None);
    }

    #[test]
    fn a_gpu_passes_by_the_memory_it_goes_by() {
        let admits = |memory: Memory, key: &str| memory.admits(find_gpu(key).unwrap());
        // 79.6 GiB, which are 85 GB
        assert!(admits(Memory::AtLeast(80), "h100"));
        assert!(admits(Memory::AtLeast(80), "h800-80gb"));
        assert!(!admits(Memory::AtLeast(96), "h800-80gb"));
        assert!(admits(Memory::AtLeast(192), "b200"));
        assert!(admits(Memory::AtMost(32), "rtx-5090"));
        assert!(!admits(Memory::AtMost(16), "rtx-5090"));
        for memory in Memory::ALL {
            let count = GPUS.iter().filter(|gpu| memory.admits(gpu)).count();
            assert!(count > 0, "{memory}");
            assert_eq!(count == GPUS.len(), memory == Memory::Any, "{memory}");
        }
    }

    #[test]
    fn only_filters_order_and_folds_follow_the_choice() {
        for toggle in Toggle::ALL {
            let mut view = View::default();
            view.flip(toggle);
            let follows = matches!(toggle, Toggle::Only(_) | Toggle::Fold(_));
            assert_eq!(view.follows_choice(), follows, "{toggle:?}");
        }
        let sorted = View {
            sort: Sort::Fit,
            ..View::default()
        };
        assert!(sorted.follows_choice());
    }
}
