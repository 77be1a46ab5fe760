//! Operations on many tensors in one call; results stay on the device.
//!
//! None of them is recorded for autograd, and all panic with libtorch's words where tch's operators would.

use tch::{Device, Kind, Tensor};

use crate::ffi;
use crate::scope::Parameter;

/// Global 2-norm over all tensors: a scalar f32 on their device. Of none: 0.
pub fn norm(tensors: &[Tensor]) -> Tensor {
    if tensors.is_empty() {
        return Tensor::zeros([], (Kind::Float, Device::Cpu));
    }
    done(ffi::norm(tensors))
}

/// The 2-norm of each tensor: f32 [n] on their device.
pub fn norms(tensors: &[Tensor]) -> Tensor {
    if tensors.is_empty() {
        return Tensor::zeros([0], (Kind::Float, Device::Cpu));
    }
    done(ffi::norms(tensors))
}

/// Global 2-norm of `a - b`, pair by pair: a scalar f32 on their device.
pub fn distance(a: &[Tensor], b: &[Tensor]) -> Tensor {
    if a.is_empty() && b.is_empty() {
        return Tensor::zeros([], (Kind::Float, Device::Cpu));
    }
    done(ffi::distance(a, b))
}

/// Scales all by `min(1, max / (norm + 1e-6))` as `torch.nn.utils.clip_grad_norm_`, without waiting for the device.
/// A norm that is not finite makes the gradients NaN, so that it cannot pass unseen.
pub fn clip_(grads: &[Tensor], norm: &Tensor, max: f64) {
    if !grads.is_empty() {
        done(ffi::clip_(grads, norm, max));
    }
}

/// `into += weight * (from - into)` for each pair.
pub fn lerp_(into: &[Tensor], from: &[Tensor], weight: f64) {
    if !into.is_empty() {
        done(ffi::lerp_(into, from, weight));
    }
}

/// `into = from` for each pair.
pub fn copy_(into: &[Tensor], from: &[Tensor]) {
    if !into.is_empty() {
        done(ffi::copy_(into, from));
    }
}

/// Sets all to zero.
pub fn zero_(tensors: &[Tensor]) {
    if !tensors.is_empty() {
        done(ffi::zero_(tensors));
    }
}

/// The gradient of each parameter (shared, not copied); zeros where none exists yet, as when no branch of a batch has
/// used the parameter so far.
pub fn grads(parameters: &[Parameter]) -> Vec<Tensor> {
    let gradient = |parameter: &Parameter| {
        let grad = parameter.tensor.grad();
        if grad.defined() { grad } else { parameter.tensor.detach().zeros_like() }
    };
    parameters.iter().map(gradient).collect()
}

/// Unequal lists and mixed devices are broken invariants of the caller.
fn done<T>(result: Result<T, String>) -> T {
    result.unwrap_or_else(|text| panic!("libtorch refused an operation on a list of tensors: {text}"))
}
