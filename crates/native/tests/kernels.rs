//! The kernels compile for every GPU that there is a target for, with NVRTC alone.
//!
//! `cargo xtask test native` installs NVRTC and runs those that want it.

use std::path::Path;

use kv_native::NvrtcError;
use kv_native::nvrtc::{Nvrtc, Target};

/// The machine of an ELF file for a GPU.
const EM_CUDA: u16 = 190;

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[test]
#[ignore = "wants NVRTC: cargo xtask test native"]
fn every_target_gets_a_binary_of_its_own() {
    let nvrtc = Nvrtc::load().unwrap();
    let (major, minor) = nvrtc.version();
    println!("NVRTC {major}.{minor}");
    for target in Target::ALL {
        let cubin = nvrtc.kernels(target).unwrap();
        let name = target.as_str();
        assert_eq!(&cubin[..4], b"\x7fELF", "{name}");
        assert_eq!(half(&cubin, 18), EM_CUDA, "{name}: the machine");
        // the second byte of the header's flags is the architecture, as in 90
        let (major, minor) = target.capability();
        assert_eq!(
            u32::from(cubin[49]),
            10 * major + minor,
            "{name}: the flags"
        );
        for kernel in ["store", "load", "attend"] {
            let section = format!(".text.{kernel}\0");
            let found = cubin
                .windows(section.len())
                .any(|part| part == section.as_bytes());
            assert!(found, "{name}: no code of {kernel}");
        }
        println!("{name}: a cubin of {} bytes", cubin.len());
    }
}

#[test]
#[ignore = "wants NVRTC: cargo xtask test native"]
fn what_does_not_compile_is_told_in_its_words() {
    let nvrtc = Nvrtc::load().unwrap();
    let error = nvrtc.build("__global__ void f() { undeclared(); }", Target::Sm90);
    let Err(NvrtcError::Compile { call, log, .. }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(call, "nvrtcCompileProgram");
    assert!(log.contains("undeclared"), "{log}");
}

#[test]
fn a_missing_compiler_is_named() {
    let error = Nvrtc::load_from(Path::new("/nowhere/libnvrtc.so")).unwrap_err();
    assert!(
        error.to_string().contains("/nowhere/libnvrtc.so"),
        "{error}"
    );
    assert!(error.to_string().contains("KVX_NVRTC"), "{error}");
}

#[test]
fn gpus_without_a_target_are_refused() {
    for target in Target::ALL {
        let (major, minor) = target.capability();
        assert_eq!(Target::of(major, minor), Ok(target));
    }
    assert!(Target::of(8, 0).is_err());
}
