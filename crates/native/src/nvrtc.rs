//! NVIDIA's run-time compiler, found and loaded at run time. All that is unsafe about it is here.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::Library;

use crate::error::NvrtcError;

/// Names the library's file, before it is looked for by its usual names.
pub const PATH_VARIABLE: &str = "KVX_NVRTC";

const USUAL_NAMES: [&str; 4] = [
    "libnvrtc.so.13",
    "libnvrtc.so.12",
    "libnvrtc.so",
    "nvrtc64_130_0.dll",
];

/// The kernels' source.
pub const SOURCE: &str = include_str!("../kernels/cache.cu");

/// A GPU that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// `sm_90`
    Sm90,
    /// `sm_100`
    Sm100,
    /// `sm_103`
    Sm103,
    /// `sm_120`
    Sm120,
    /// `sm_121`
    Sm121,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Sm90,
        Self::Sm100,
        Self::Sm103,
        Self::Sm120,
        Self::Sm121,
    ];

    /// NVRTC's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sm90 => "sm_90",
            Self::Sm100 => "sm_100",
            Self::Sm103 => "sm_103",
            Self::Sm120 => "sm_120",
            Self::Sm121 => "sm_121",
        }
    }

    /// The compute capability, as in 9.0.
    #[must_use]
    pub const fn capability(self) -> (u32, u32) {
        match self {
            Self::Sm90 => (9, 0),
            Self::Sm100 => (10, 0),
            Self::Sm103 => (10, 3),
            Self::Sm120 => (12, 0),
            Self::Sm121 => (12, 1),
        }
    }

    /// The target of a GPU.
    pub fn of(major: u32, minor: u32) -> Result<Self, NvrtcError> {
        let mut all = Self::ALL.into_iter();
        all.find(|target| target.capability() == (major, minor))
            .ok_or(NvrtcError::Capability { major, minor })
    }
}

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Fill = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
type Words = unsafe extern "C" fn(c_int) -> *const c_char;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;

/// What NVRTC has built in: a library beside it, which older ones do not look for there.
fn builtins(library: &Path) -> Option<Library> {
    let files = std::fs::read_dir(library.parent()?).ok()?;
    let mut paths = files.filter_map(|file| Some(file.ok()?.path()));
    let path = paths.find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libnvrtc-builtins.so")
    })?;
    // SAFETY: as of NVRTC itself; it is data and has no initialisers of its own.
    unsafe { Library::new(path) }.ok()
}

/// The compiler.
#[derive(Debug)]
pub struct Nvrtc {
    create: Create,
    compile: Compile,
    log_size: Size,
    log: Fill,
    cubin_size: Size,
    cubin: Fill,
    destroy: Destroy,
    words: Words,
    version: Version,
    // the functions are in the first; it finds the other by its name once that is loaded
    _libraries: (Library, Option<Library>),
}

impl Nvrtc {
    /// Finds it: the file that `KVX_NVRTC` names, or else the system's.
    pub fn load() -> Result<Self, NvrtcError> {
        let named = std::env::var_os(PATH_VARIABLE).map(PathBuf::from);
        let places: Vec<PathBuf> = match named {
            Some(path) => vec![path],
            None => USUAL_NAMES.iter().map(PathBuf::from).collect(),
        };
        Self::first_of(&places)
    }

    /// Loads it from this file.
    pub fn load_from(file: &Path) -> Result<Self, NvrtcError> {
        Self::first_of(&[file.to_path_buf()])
    }

    fn first_of(places: &[PathBuf]) -> Result<Self, NvrtcError> {
        for place in places {
            // SAFETY: loading NVRTC runs its initialisers alone, which have no preconditions.
            if let Ok(library) = unsafe { Library::new(place) } {
                return Self::of(library, builtins(place));
            }
        }
        let tried: Vec<String> = places
            .iter()
            .map(|place| place.display().to_string())
            .collect();
        Err(NvrtcError::Missing {
            tried: tried.join(", "),
        })
    }

    fn of(library: Library, builtins: Option<Library>) -> Result<Self, NvrtcError> {
        fn find<F: Copy>(library: &Library, name: &'static str) -> Result<F, NvrtcError> {
            // SAFETY: each `F` below is the function's type in nvrtc.h; it is used no longer than
            // the library, which is kept beside it.
            unsafe { library.get::<F>(name) }
                .map(|function| *function)
                .map_err(|_| NvrtcError::Symbol(name))
        }
        Ok(Self {
            create: find(&library, "nvrtcCreateProgram")?,
            compile: find(&library, "nvrtcCompileProgram")?,
            log_size: find(&library, "nvrtcGetProgramLogSize")?,
            log: find(&library, "nvrtcGetProgramLog")?,
            cubin_size: find(&library, "nvrtcGetCUBINSize")?,
            cubin: find(&library, "nvrtcGetCUBIN")?,
            destroy: find(&library, "nvrtcDestroyProgram")?,
            words: find(&library, "nvrtcGetErrorString")?,
            version: find(&library, "nvrtcVersion")?,
            _libraries: (library, builtins),
        })
    }

    /// Its version, as in 13.0.
    #[must_use]
    pub fn version(&self) -> (i32, i32) {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both are written before it returns.
        unsafe { (self.version)(&raw mut major, &raw mut minor) };
        (major, minor)
    }

    /// Compiles the kernels to a binary of this target.
    pub fn kernels(&self, target: Target) -> Result<Vec<u8>, NvrtcError> {
        self.build(SOURCE, target)
    }

    /// Compiles a source to a binary of this target.
    pub fn build(&self, source: &str, target: Target) -> Result<Vec<u8>, NvrtcError> {
        let error = |call, code| {
            // SAFETY: it returns a constant string for every code.
            let words = unsafe { CStr::from_ptr((self.words)(code)) };
            NvrtcError::Compile {
                call,
                target: target.as_str(),
                error: words.to_string_lossy().into_owned(),
                log: String::new(),
            }
        };
        let done = |call, code| {
            if code == 0 {
                Ok(())
            } else {
                Err(error(call, code))
            }
        };
        let text = CString::new(source).map_err(|_| error("nvrtcCreateProgram", 3))?;
        let mut program = ptr::null_mut();
        // SAFETY: both strings end in 0 and are copied; no headers are given.
        done("nvrtcCreateProgram", unsafe {
            (self.create)(
                &raw mut program,
                text.as_ptr(),
                c"cache.cu".as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        })?;
        let built = self.compile(program, target, &done);
        // SAFETY: the program was created above and is used no more.
        unsafe { (self.destroy)(&raw mut program) };
        built
    }

    fn compile(
        &self,
        program: Program,
        target: Target,
        done: &impl Fn(&'static str, c_int) -> Result<(), NvrtcError>,
    ) -> Result<Vec<u8>, NvrtcError> {
        let architecture = format!("--gpu-architecture={}", target.as_str());
        let options = [architecture.as_str(), "--std=c++17"].map(CString::new);
        let options: Vec<CString> = options.into_iter().flatten().collect();
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).unwrap_or(0);
        // SAFETY: the program is alive, and so many strings are given that end in 0.
        let code = unsafe { (self.compile)(program, count, pointers.as_ptr()) };
        if let Err(error) = done("nvrtcCompileProgram", code) {
            let log = bytes(program, self.log_size, self.log);
            let log = String::from_utf8_lossy(&log)
                .trim_end_matches('\0')
                .to_owned();
            return Err(match error {
                NvrtcError::Compile {
                    call,
                    target,
                    error,
                    ..
                } => NvrtcError::Compile {
                    call,
                    target,
                    error,
                    log,
                },
                other => other,
            });
        }
        Ok(bytes(program, self.cubin_size, self.cubin))
    }
}

/// What a pair of functions tells: how many bytes, and the bytes; none where it fails.
fn bytes(program: Program, size: Size, fill: Fill) -> Vec<u8> {
    let mut count = 0;
    // SAFETY: the program is alive; the count is written.
    if unsafe { size(program, &raw mut count) } != 0 {
        return Vec::new();
    }
    let mut bytes = vec![0_u8; count];
    // SAFETY: it writes as many bytes as it has just told.
    if unsafe { fill(program, bytes.as_mut_ptr().cast()) } != 0 {
        return Vec::new();
    }
    bytes
}
