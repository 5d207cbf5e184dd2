//! A GPU's memory, through CUDA's driver, which is looked for at run time.

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys::is_culib_present;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr, DriverError, LaunchConfig,
    PushKernelArg,
};
use cudarc::nvrtc::Ptx;

use super::device::DeviceLayer;
use super::{DecodeStep, LayerSlots, Memory, bounds};
use crate::error::MemoryError;
use crate::nvrtc::{Nvrtc, Target};

/// Threads of a block that stores or loads a row.
const ROW_THREADS: u32 = 128;
/// Threads of a block of a decode step: `THREADS` of the kernels.
const ATTEND_THREADS: u32 = 256;

/// A GPU's memory.
#[derive(Debug)]
pub struct CudaMemory {
    stream: Arc<CudaStream>,
    bytes: CudaSlice<u8>,
    store: CudaFunction,
    load: CudaFunction,
    attend: CudaFunction,
    device: String,
}

fn driver(call: &'static str) -> impl Fn(DriverError) -> MemoryError {
    move |error| MemoryError::Driver {
        call,
        error: error.to_string(),
    }
}

#[allow(clippy::cast_possible_truncation)] // it is in memory
const fn index(offset: u64) -> usize {
    offset as usize
}

/// What the kernels are told of a layer.
fn told(layer: &LayerSlots<'_>) -> Result<DeviceLayer, MemoryError> {
    DeviceLayer::new(layer).ok_or_else(|| MemoryError::Unaligned(layer.place.name.clone()))
}

/// As many blocks as there are rows and heads.
fn grid(rows: usize, heads: u64, threads: u32) -> Result<LaunchConfig, MemoryError> {
    let (Ok(x), Ok(y)) = (u32::try_from(rows), u32::try_from(heads)) else {
        return Err(MemoryError::ManyRows { rows, heads });
    };
    Ok(LaunchConfig {
        grid_dim: (x, y, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    })
}

impl CudaMemory {
    /// Allocates so many bytes on the GPU of this number, all 0, and compiles the kernels for it.
    pub fn new(ordinal: usize, allocated_bytes: u64) -> Result<Self, MemoryError> {
        // SAFETY: it loads CUDA's driver if that is there, whose initialisers have no preconditions.
        if !unsafe { is_culib_present() } {
            let none = "no driver (libcuda.so.1) is installed";
            return Err(MemoryError::NoCuda(none.to_owned()));
        }
        let context = CudaContext::new(ordinal)
            .map_err(|error| MemoryError::NoCuda(format!("GPU {ordinal}: {error}")))?;
        let (major, minor) = context
            .compute_capability()
            .map_err(driver("cuDeviceGetAttribute"))?;
        let unknown = (0, 0);
        let (major, minor) = match (u32::try_from(major), u32::try_from(minor)) {
            (Ok(major), Ok(minor)) => (major, minor),
            _ => unknown,
        };
        let name = context.name().map_err(driver("cuDeviceGetName"))?;
        let cubin = Nvrtc::load()?.kernels(Target::of(major, minor)?)?;
        let module = context
            .load_module(Ptx::from_binary(cubin))
            .map_err(driver("cuModuleLoadData"))?;
        let function = |name| {
            module
                .load_function(name)
                .map_err(driver("cuModuleGetFunction"))
        };
        let (store, load, attend) = (function("store")?, function("load")?, function("attend")?);
        let stream = context.default_stream();
        let bytes =
            stream
                .alloc_zeros(index(allocated_bytes))
                .map_err(|_| MemoryError::OutOfMemory {
                    bytes: allocated_bytes,
                    memory: "the GPU",
                })?;
        Ok(Self {
            stream,
            bytes,
            store,
            load,
            attend,
            device: format!("{name}, compute capability {major}.{minor}"),
        })
    }

    fn up<T: cudarc::driver::DeviceRepr>(&self, values: &[T]) -> Result<CudaSlice<T>, MemoryError> {
        self.stream
            .clone_htod(values)
            .map_err(driver("cuMemcpyHtoD"))
    }

    fn zeros(&self, elements: usize) -> Result<CudaSlice<f32>, MemoryError> {
        // an empty allocation is refused
        self.stream
            .alloc_zeros(elements.max(1))
            .map_err(driver("cuMemAlloc"))
    }

    fn down(&self, values: &CudaSlice<f32>) -> Result<Vec<f32>, MemoryError> {
        self.stream
            .clone_dtoh(values)
            .map_err(driver("cuMemcpyDtoH"))
    }

    /// Seconds that storing these rows, reading them back, and copying the same bytes of the pool onto others take, each
    /// on the GPU alone, of the fastest of some runs.
    pub fn rates(
        &mut self,
        layer: LayerSlots<'_>,
        slots: &[i64],
        rows: &[f32],
    ) -> Result<Rates, MemoryError> {
        layer.check_rows(slots, rows)?;
        let there = told(&layer)?;
        let slots_there = self.up(slots)?;
        let mut rows_there = self.up(rows)?;
        let config = grid(slots.len(), layer.format.heads, ROW_THREADS)?;
        let row_bytes = rows.len() as u64 * 4;
        let stored = self.time(|memory| {
            let mut launch = memory.stream.launch_builder(&memory.store);
            launch.arg(&mut memory.bytes).arg(&there);
            launch.arg(&slots_there).arg(&rows_there);
            // SAFETY: the arguments are those of `store` in kernels/cache.cu; slots and rows are checked.
            unsafe { launch.launch(config) }.map(drop)
        })?;
        let loaded = self.time(|memory| {
            let mut launch = memory.stream.launch_builder(&memory.load);
            launch.arg(&memory.bytes).arg(&there);
            launch.arg(&slots_there).arg(&mut rows_there);
            // SAFETY: the arguments are those of `load`; slots are checked, and rows have room for them.
            unsafe { launch.launch(config) }.map(drop)
        })?;
        let mut copy = self.zeros(rows.len())?;
        let copied = self.time(|memory| memory.stream.memcpy_dtod(&rows_there, &mut copy))?;
        Ok(Rates {
            row_bytes,
            store_seconds: stored,
            load_seconds: loaded,
            copy_seconds: copied,
        })
    }

    /// The fastest of some runs, after one that is not counted.
    fn time(
        &mut self,
        mut work: impl FnMut(&mut Self) -> Result<(), DriverError>,
    ) -> Result<f64, MemoryError> {
        const RUNS: usize = 10;
        let mut fastest = f64::INFINITY;
        for run in 0..=RUNS {
            let start = Instant::now();
            work(self).map_err(driver("launch"))?;
            self.stream.synchronize().map_err(driver("synchronize"))?;
            if run > 0 {
                fastest = fastest.min(start.elapsed().as_secs_f64());
            }
        }
        Ok(fastest)
    }
}

/// How fast rows are written and read, beside a plain copy of as many bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Bytes of the rows as `float32`.
    pub row_bytes: u64,
    /// Seconds to store them.
    pub store_seconds: f64,
    /// Seconds to load them.
    pub load_seconds: f64,
    /// Seconds to copy as many bytes on the card.
    pub copy_seconds: f64,
}

impl Memory for CudaMemory {
    fn device(&self) -> String {
        self.device.clone()
    }

    fn is_host(&self) -> bool {
        false
    }

    fn allocated_bytes(&self) -> u64 {
        self.bytes.num_bytes() as u64
    }

    fn address(&self) -> u64 {
        self.bytes.device_ptr(&self.stream).0
    }

    fn fill(&mut self, byte: u8) -> Result<(), MemoryError> {
        const CHUNK_BYTES: usize = 64 << 20;
        let total = self.bytes.len();
        let chunk = vec![byte; CHUNK_BYTES.min(total)];
        for start in (0..total).step_by(CHUNK_BYTES) {
            let end = (start + CHUNK_BYTES).min(total);
            self.write(start as u64, &chunk[..end - start])?;
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let end = bounds(offset, bytes.len(), self.allocated_bytes())?;
        let mut there = self.bytes.slice_mut(index(offset)..index(end));
        self.stream
            .memcpy_htod(bytes, &mut there)
            .map_err(driver("cuMemcpyHtoD"))
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        let end = bounds(offset, bytes.len(), self.allocated_bytes())?;
        let there = self.bytes.slice(index(offset)..index(end));
        self.stream
            .memcpy_dtoh(&there, bytes)
            .map_err(driver("cuMemcpyDtoH"))?;
        self.stream.synchronize().map_err(driver("synchronize"))
    }

    fn store(
        &mut self,
        layer: LayerSlots<'_>,
        slots: &[i64],
        rows: &[f32],
    ) -> Result<(), MemoryError> {
        layer.check_rows(slots, rows)?;
        if slots.is_empty() {
            return Ok(());
        }
        let there = told(&layer)?;
        let (slots_there, rows_there) = (self.up(slots)?, self.up(rows)?);
        let config = grid(slots.len(), layer.format.heads, ROW_THREADS)?;
        let mut launch = self.stream.launch_builder(&self.store);
        launch.arg(&mut self.bytes).arg(&there);
        launch.arg(&slots_there).arg(&rows_there);
        // SAFETY: the arguments are those of `store` in kernels/cache.cu; every slot is one of the
        // layer's, whose pages are in the allocation, and there is a row for each.
        unsafe { launch.launch(config) }.map_err(driver("cuLaunchKernel"))?;
        self.stream.synchronize().map_err(driver("synchronize"))
    }

    fn load(&self, layer: LayerSlots<'_>, slots: &[i64]) -> Result<Vec<f32>, MemoryError> {
        layer.check_slots(slots)?;
        if slots.is_empty() {
            return Ok(Vec::new());
        }
        let there = told(&layer)?;
        let slots_there = self.up(slots)?;
        let mut rows = self.zeros(slots.len() * index(layer.format.token_elements()))?;
        let config = grid(slots.len(), layer.format.heads, ROW_THREADS)?;
        let mut launch = self.stream.launch_builder(&self.load);
        launch.arg(&self.bytes).arg(&there);
        launch.arg(&slots_there).arg(&mut rows);
        // SAFETY: as in `store`; there is room for a row of each slot.
        unsafe { launch.launch(config) }.map_err(driver("cuLaunchKernel"))?;
        self.down(&rows)
    }

    fn attend(&self, step: DecodeStep<'_>) -> Result<Vec<f32>, MemoryError> {
        step.check()?;
        let elements = step.tokens * step.heads * step.value_elements;
        let (a, b) = match step.selections {
            [] => return Ok(vec![0.0; elements]),
            [a] => (a, None),
            [a, b] => (a, Some(b)),
            more => return Err(MemoryError::ManySelections(more.len())),
        };
        if elements == 0 {
            return Ok(Vec::new());
        }
        let width_a = a.slots.len() / step.tokens;
        let width_b = b.map_or(0, |b| b.slots.len() / step.tokens);
        let told_a = told(&a.layer)?;
        let told_b = told(&b.unwrap_or(a).layer)?;
        // what is empty is not uploaded, and not read either
        let none: &[i64] = &[-1];
        let some = |slots| if slots == [0_i64; 0] { none } else { slots };
        let slots_a = self.up(some(a.slots))?;
        let slots_b = self.up(some(b.map_or(none, |b| b.slots)))?;
        let queries = self.up(step.queries)?;
        let sinks = step.sinks.map(|sinks| self.up(sinks)).transpose()?;
        let sinks_address = sinks
            .as_ref()
            .map_or(0_u64, |sinks| sinks.device_ptr(&self.stream).0);
        let mut weights = self.zeros(step.tokens * step.heads * (width_a + width_b))?;
        let mut outputs = self.zeros(elements)?;
        let (wide_a, wide_b) = (width_a as u64, width_b as u64);
        let value_elements = step.value_elements as u64;
        let config = grid(step.tokens, step.heads as u64, ATTEND_THREADS)?;
        let mut launch = self.stream.launch_builder(&self.attend);
        launch.arg(&self.bytes);
        launch.arg(&told_a).arg(&slots_a).arg(&wide_a);
        launch.arg(&told_b).arg(&slots_b).arg(&wide_b);
        launch.arg(&queries).arg(&sinks_address).arg(&step.scale);
        launch.arg(&value_elements);
        launch.arg(&mut weights).arg(&mut outputs);
        // SAFETY: the arguments are those of `attend`; slots are checked against their layers, and
        // queries, sinks and outputs against tokens and heads; `sinks` outlives the launch.
        unsafe { launch.launch(config) }.map_err(driver("cuLaunchKernel"))?;
        self.down(&outputs)
    }
}
