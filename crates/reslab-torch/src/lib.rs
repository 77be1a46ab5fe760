//! What tch lacks: parameter scopes, random streams, fused optimizers, precision, memory figures, modules from PyTorch
//! that train.
//!
//! All of reslab's access to libtorch that tch does not give goes through this crate, so that no other crate holds
//! `unsafe` code or C++.

#![deny(unsafe_code)]

mod attention;
pub mod device;
#[allow(unsafe_code)]
mod ffi;
pub mod foreach;
pub mod optim;
pub mod scope;
pub mod script;
pub mod stream;

pub use attention::attention;
pub use device::{
    AutocastGuard, DeviceError, autocast_bf16, cuda_count, empty_cache, is_deterministic, keep_freed_memory,
    open_device, peak_memory, reset_peak_memory, set_deterministic, set_tf32, set_threads, synchronize,
    uses_flash_attention, uses_tf32, version,
};
pub use optim::{OptimError, OptimGroup, OptimKind, Optimizer};
pub use scope::{Group, Init, Parameter, Scope, ScopeError};
pub use script::{Script, ScriptError};
pub use stream::{Stream, stream};
pub use tch;
