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

/// Drops the gradients of all: the next backward pass stores its own instead of adding to zeros.
pub fn forget_grads(parameters: &[Tensor]) {
    done(ffi::forget_grads(parameters));
}

/// The gradient of each parameter (shared, not copied); zeros where there is none, as when drop path left
/// out the branch that uses the parameter.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::{Group, Init, Scope};

    fn tensors(kind: Kind) -> Vec<Tensor> {
        [vec![3.0, 0.0], vec![0.0, 4.0, 0.0], vec![12.0]]
            .iter()
            .map(|values| Tensor::from_slice(values).to_kind(kind))
            .collect()
    }

    fn values(tensor: &Tensor) -> Vec<f64> {
        Vec::try_from(tensor.to_kind(Kind::Double)).unwrap()
    }

    #[test]
    fn norms_are_single_precision_of_any_kind_of_tensor() {
        for kind in [Kind::Float, Kind::Double] {
            let list = tensors(kind);
            assert_eq!(values(&norms(&list)), [3.0, 4.0, 12.0]);
            let global = norm(&list);
            assert_eq!((global.kind(), global.size(), global.double_value(&[])), (Kind::Float, vec![], 13.0));
        }
        assert_eq!((norm(&[]).double_value(&[]), norms(&[]).size()), (0.0, vec![0]));
    }

    #[test]
    fn distance_is_the_norm_of_the_difference() {
        let (a, b) = (tensors(Kind::Float), tensors(Kind::Float));
        assert_eq!(distance(&a, &b).double_value(&[]), 0.0);
        let _ = b[0].shallow_clone().fill_(0.0);
        assert_eq!(distance(&a, &b).double_value(&[]), 3.0);
    }

    #[test]
    fn clipping_scales_to_the_largest_norm_and_leaves_smaller_ones_alone() {
        for kind in [Kind::Float, Kind::Double] {
            let list = tensors(kind);
            clip_(&list, &norm(&list), 100.0);
            assert_eq!(values(&list[2]), [12.0]);
            clip_(&list, &norm(&list), 6.5);
            assert!((values(&list[2])[0] - 6.0).abs() < 1e-5 && (values(&list[0])[0] - 1.5).abs() < 1e-6);
            assert_eq!(list[0].kind(), kind);
        }
    }

    #[test]
    fn clipping_by_a_norm_that_is_not_finite_shows() {
        for bad in [f64::NAN, f64::INFINITY] {
            let mut list = tensors(Kind::Float);
            let _ = list[1].get(0).fill_(bad);
            clip_(&list, &norm(&list), 1.0);
            assert!(norm(&list).double_value(&[]).is_nan());
            list.clear();
        }
    }

    #[test]
    fn lerp_and_copy_act_in_place_also_on_leaves() {
        let into = tensors(Kind::Float);
        let from: Vec<Tensor> = into.iter().map(|x| (x * 2.0).set_requires_grad(true)).collect();
        lerp_(&into, &from, 0.25);
        assert_eq!(values(&into[2]), [15.0]);
        copy_(&from, &into);
        assert_eq!(values(&from[2].detach()), [15.0]);
        assert!(from[2].is_leaf() && from[2].requires_grad() && !into[2].requires_grad());
    }

    #[test]
    fn gradients_are_shared_and_missing_ones_are_zeros() {
        let scope = Scope::new(0, Kind::Float, Device::Cpu);
        let used = scope.parameter("used", &[2], Init::Constant(1.0), Group::Decay).unwrap();
        let _ = scope.parameter("unused", &[3], Init::Constant(1.0), Group::Decay).unwrap();
        (&used * 3.0).sum(Kind::Float).backward();
        let grads = grads(&scope.parameters());
        assert_eq!((values(&grads[0]), values(&grads[1])), (vec![3.0; 2], vec![0.0; 3]));
        clip_(&grads, &norm(&grads), 1.0);
        assert!((used.grad().norm().double_value(&[]) - 1.0).abs() < 1e-5);
    }

    #[test]
    #[should_panic(expected = "lists of tensors differ in length")]
    fn lists_of_unequal_length_are_refused() {
        copy_(&tensors(Kind::Float), &tensors(Kind::Float)[1..]);
    }
}
