//! Operations on many tensors in one call; results stay on the device.

use tch::{Device, Kind, Tensor};

use crate::scope::Parameter;

/// Global 2-norm over all tensors, a scalar f32.
pub fn norm(tensors: &[Tensor]) -> Tensor {
    norms(tensors).norm()
}

/// The 2-norm of each tensor, f32 [n].
pub fn norms(tensors: &[Tensor]) -> Tensor {
    let _guard = tch::no_grad_guard();
    if tensors.is_empty() {
        return Tensor::zeros([0], (Kind::Float, Device::Cpu));
    }
    Tensor::stack(&tensors.iter().map(|tensor| tensor.norm().to_kind(Kind::Float)).collect::<Vec<_>>(), 0)
}

/// Scales all by `min(1, max / (norm + 1e-6))`, without waiting for the device.
pub fn clip_(grads: &[Tensor], norm: &Tensor, max: f64) {
    let _guard = tch::no_grad_guard();
    let factor = ((norm + 1e-6).reciprocal() * max).clamp_max(1.0);
    for grad in grads {
        let _ = grad.shallow_clone().g_mul_(&factor);
    }
}

/// `into += weight * (from - into)` for each pair.
pub fn lerp_(into: &[Tensor], from: &[Tensor], weight: f64) {
    let _guard = tch::no_grad_guard();
    for (into, from) in into.iter().zip(from) {
        let _ = into.shallow_clone().lerp_(from, weight);
    }
}

/// The gradient of each parameter; zeros where there is none yet.
pub fn grads(parameters: &[Parameter]) -> Vec<Tensor> {
    let gradient = |parameter: &Parameter| {
        let grad = parameter.tensor.grad();
        if grad.defined() { grad } else { parameter.tensor.detach().zeros_like() }
    };
    parameters.iter().map(gradient).collect()
}
