//! What tch lacks: parameter scopes, random streams, fused optimizers, precision, memory figures.
//!
//! All of reslab's access to libtorch that tch does not give goes through this crate, so that no other crate holds
//! `unsafe` code or C++.

pub mod device;
pub mod foreach;
pub mod optim;
pub mod scope;
pub mod stream;

pub use device::{
    AutocastGuard, DeviceError, autocast_bf16, cuda_count, open_device, peak_memory, set_deterministic, set_threads,
    synchronize, version,
};
pub use optim::{OptimError, OptimGroup, OptimKind, Optimizer};
pub use scope::{Group, Init, Parameter, Scope, ScopeError};
pub use stream::{Stream, stream};
pub use tch;
