//! The kernels' own source, by a C++ compiler: the whole suite on it, byte for byte the host's.
//!
//! `cargo xtask test native` builds `kernels/emulate.cpp` and names it `KVX_EMULATED`.

mod common;

use common::{LLAMA_FP8, V4, V32, plan};
use kv_native::check::check;
use kv_native::memory::DeviceLayer;
use kv_native::{DecodeStep, HostMemory, LayerSlots, Memory, MemoryError};
use libloading::Library;

type Store = unsafe extern "C" fn(*mut u8, *const DeviceLayer, *const i64, *const f32, u64);
type Load = unsafe extern "C" fn(*const u8, *const DeviceLayer, *const i64, *mut f32, u64);
type Attend = unsafe extern "C" fn(
    *const u8,
    *const DeviceLayer,
    *const i64,
    u64,
    *const DeviceLayer,
    *const i64,
    u64,
    *const f32,
    *const f32,
    f32,
    u64,
    *mut f32,
    *mut f32,
    u64,
    u64,
);

type Order = unsafe extern "C" fn(bool);

/// The host's bytes, written and read by the kernels' source.
struct Emulated {
    host: HostMemory,
    kernels: Library,
}

impl Emulated {
    fn new(bytes: u64, is_backwards: bool) -> Result<Self, MemoryError> {
        let file = std::env::var_os("KVX_EMULATED").expect("KVX_EMULATED names the library");
        // SAFETY: it is built of kernels/emulate.cpp, which initialises nothing.
        let kernels = unsafe { Library::new(&file) }.expect("the library loads");
        let emulated = Self {
            host: HostMemory::new(bytes)?,
            kernels,
        };
        let order: Order = emulated.function("emulate_order");
        // SAFETY: it keeps the order for what is run next, on this thread alone.
        unsafe { order(is_backwards) };
        Ok(emulated)
    }

    fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: each `F` above is the function's type in kernels/emulate.cpp.
        *unsafe { self.kernels.get::<F>(name) }.expect("the function is there")
    }
}

impl Memory for Emulated {
    fn device(&self) -> String {
        "the kernels' source on the host".to_owned()
    }

    fn is_host(&self) -> bool {
        false
    }

    fn allocated_bytes(&self) -> u64 {
        self.host.allocated_bytes()
    }

    fn address(&self) -> u64 {
        self.host.address()
    }

    fn fill(&mut self, byte: u8) -> Result<(), MemoryError> {
        self.host.fill(byte)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        self.host.write(offset, bytes)
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        self.host.read(offset, bytes)
    }

    fn store(
        &mut self,
        layer: LayerSlots<'_>,
        slots: &[i64],
        rows: &[f32],
    ) -> Result<(), MemoryError> {
        let told = DeviceLayer::new(&layer).expect("words are aligned");
        let store: Store = self.function("emulate_store");
        // SAFETY: the suite names slots of the layer and gives a row for each; the bytes are the
        // host's own, which nobody reads meanwhile.
        unsafe {
            store(
                self.host.address() as *mut u8,
                &raw const told,
                slots.as_ptr(),
                rows.as_ptr(),
                slots.len() as u64,
            );
        }
        Ok(())
    }

    fn load(&self, layer: LayerSlots<'_>, slots: &[i64]) -> Result<Vec<f32>, MemoryError> {
        let told = DeviceLayer::new(&layer).expect("words are aligned");
        let elements = usize::try_from(layer.format.token_elements()).unwrap();
        let mut rows = vec![f32::NAN; slots.len() * elements];
        let load: Load = self.function("emulate_load");
        // SAFETY: as in `store`; there is room for a row of each slot.
        unsafe {
            load(
                self.host.address() as *const u8,
                &raw const told,
                slots.as_ptr(),
                rows.as_mut_ptr(),
                slots.len() as u64,
            );
        }
        Ok(rows)
    }

    fn attend(&self, step: DecodeStep<'_>) -> Result<Vec<f32>, MemoryError> {
        let [a, rest @ ..] = step.selections else {
            panic!("a selection");
        };
        let b = rest.first().unwrap_or(a);
        let told = |layer| DeviceLayer::new(layer).expect("words are aligned");
        let (told_a, told_b) = (told(&a.layer), told(&b.layer));
        let width_a = a.slots.len() / step.tokens;
        let width_b = rest.first().map_or(0, |b| b.slots.len() / step.tokens);
        let rows = step.tokens * step.heads;
        let mut weights = vec![f32::NAN; rows * (width_a + width_b)];
        let mut outputs = vec![f32::NAN; rows * step.value_elements];
        let attend: Attend = self.function("emulate_attend");
        // SAFETY: as in `store`; the rest has the sizes that the kernel reads.
        unsafe {
            attend(
                self.host.address() as *const u8,
                &raw const told_a,
                a.slots.as_ptr(),
                width_a as u64,
                &raw const told_b,
                b.slots.as_ptr(),
                width_b as u64,
                step.queries.as_ptr(),
                step.sinks.map_or(std::ptr::null(), <[f32]>::as_ptr),
                step.scale,
                step.value_elements as u64,
                weights.as_mut_ptr(),
                outputs.as_mut_ptr(),
                step.tokens as u64,
                step.heads as u64,
            );
        }
        Ok(outputs)
    }
}

#[test]
#[ignore = "wants a C++ compiler: cargo xtask test native"]
fn the_kernels_source_passes() {
    for (name, model, is_backwards) in [
        ("DeepSeek V4 Flash, threads forwards", V4, false),
        ("DeepSeek V3.2, threads backwards", V32, true),
        ("Llama 3.1 in fp8, threads backwards", LLAMA_FP8, true),
    ] {
        let plan = plan(model, "h200", 192 << 20);
        let receipt = check(name, &plan, |bytes| Emulated::new(bytes, is_backwards)).unwrap();
        println!("{receipt}\n");
        assert_eq!(receipt.golden_pages, 28);
        assert!(receipt.pages_verified() > 28 + 8);
    }
}
