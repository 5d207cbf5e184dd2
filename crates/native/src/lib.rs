//! The KV cache in real memory, by the resolver's plan.
//!
//! No size, offset or stride is reckoned here: [`PoolPlan`] is read off a
//! [`Resolution`](kv_resolver::Resolution), and a [`Pool`] allocates its bytes once, hands out its blocks as vLLM
//! does, and writes and reads rows where the plan has them. [`HostMemory`] is always there; `CudaMemory` looks for
//! CUDA's driver when it is asked for. What has no writer here is refused: [`FormatError`].

mod attention;
pub mod blocks;
pub mod check;
mod codec;
pub mod error;
pub mod ffi;
pub mod format;
pub mod golden;
pub mod memory;
pub mod number;
pub mod nvrtc;
pub mod plan;
pub mod pool;
pub mod tables;

pub use codec::TensorScales;
pub use error::{BlockError, FormatError, MemoryError, NvrtcError, PlanError};
#[cfg(feature = "cuda")]
pub use memory::CudaMemory;
pub use memory::{DecodeStep, HostMemory, LayerSlots, Memory, Selection};
pub use plan::PoolPlan;
pub use pool::{Pool, PoolError};
