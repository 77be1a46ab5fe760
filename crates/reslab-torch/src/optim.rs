//! Optimizers whose state is plain tensors.

use std::collections::BTreeMap;

use tch::{Kind, Tensor};

use crate::foreach;
use crate::scope::Parameter;

/// The update rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OptimKind {
    /// Adam with decoupled weight decay, as `torch.optim.AdamW`.
    AdamW {
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Added to the root of the second moment.
        eps: f64,
    },
    /// Momentum without dampening, weight decay added to the gradient, as `torch.optim.SGD`.
    Sgd {
        /// Factor on the last update direction; 0 is plain gradient descent.
        momentum: f64,
    },
}

/// Parameters that are stepped alike.
#[derive(Debug)]
pub struct OptimGroup {
    /// For reports.
    pub name: String,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// Factor on the step's learning rate.
    pub lr_scale: f64,
    /// Factor on AdamW's eps.
    pub eps_scale: f64,
    /// Weight decay.
    pub weight_decay: f64,
}

/// Why a step or a restored state failed.
#[derive(Debug, thiserror::Error)]
pub enum OptimError {
    /// libtorch failed.
    #[error("optimizer: {0}")]
    Torch(String),
    /// The state lacks a tensor.
    #[error("optimizer state lacks `{0}`")]
    Missing(String),
    /// A tensor of the state has another shape.
    #[error("optimizer state `{name}` must have shape {expected:?}, but has {found:?}")]
    Shape {
        /// Name of the tensor.
        name: String,
        /// Shape that is needed.
        expected: Vec<i64>,
        /// Shape that was given.
        found: Vec<i64>,
    },
}

/// An optimizer over groups of parameters.
#[derive(Debug)]
pub struct Optimizer {
    kind: OptimKind,
    groups: Vec<OptimGroup>,
    states: Vec<Vec<(Tensor, Tensor, Tensor)>>,
}

impl Optimizer {
    /// All state starts at zero.
    pub fn new(kind: OptimKind, groups: Vec<OptimGroup>) -> Optimizer {
        let zero = |p: &Parameter| p.tensor.detach().zeros_like();
        let step = |p: &Parameter| Tensor::zeros(&[] as &[i64], (Kind::Float, p.tensor.device()));
        let states =
            groups.iter().map(|g| g.parameters.iter().map(|p| (zero(p), zero(p), step(p))).collect()).collect();
        Optimizer { kind, groups, states }
    }

    /// One step at this learning rate. A parameter without gradient is stepped with zeros.
    pub fn step(&mut self, lr: f64) -> Result<(), OptimError> {
        let _guard = tch::no_grad_guard();
        for (group, states) in self.groups.iter().zip(&mut self.states) {
            let lr = lr * group.lr_scale;
            let grads = foreach::grads(&group.parameters);
            for ((parameter, grad), (m, v, step)) in group.parameters.iter().zip(grads).zip(states) {
                let mut w = parameter.tensor.detach();
                match self.kind {
                    OptimKind::AdamW { beta1, beta2, eps } => {
                        *step += 1.0;
                        let t = step.double_value(&[]);
                        let _ = w.g_mul_scalar_(1.0 - lr * group.weight_decay);
                        let _ = m.lerp_(&grad, 1.0 - beta1);
                        let _ = v.lerp_(&grad.square(), 1.0 - beta2);
                        let denominator = v.sqrt() / (1.0 - beta2.powf(t)).sqrt() + eps * group.eps_scale;
                        w -= &*m / denominator * (lr / (1.0 - beta1.powf(t)));
                    }
                    OptimKind::Sgd { momentum } => {
                        *m *= momentum;
                        *m += &grad + &w * group.weight_decay;
                        w -= &*m * lr;
                    }
                }
            }
        }
        Ok(())
    }

    /// Sets all gradients that exist to zero.
    pub fn zero_grad(&mut self) {
        for parameter in self.groups.iter().flat_map(|group| &group.parameters) {
            let mut grad = parameter.tensor.grad();
            if grad.defined() {
                let _ = grad.zero_();
            }
        }
    }

    /// The state by name: shallow clones of the live tensors.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        let mut state = Vec::new();
        for (group, states) in self.groups.iter().zip(&self.states) {
            for (parameter, (m, v, step)) in group.parameters.iter().zip(states) {
                for (what, tensor) in [("exp_avg", m), ("exp_avg_sq", v), ("step", step)] {
                    state.push((format!("{}.{what}", parameter.name), tensor.shallow_clone()));
                }
            }
        }
        state
    }

    /// Copies a saved state in.
    pub fn load_state(&mut self, saved: &BTreeMap<String, Tensor>) -> Result<(), OptimError> {
        let _guard = tch::no_grad_guard();
        for (name, mut tensor) in self.state() {
            let from = saved.get(&name).ok_or_else(|| OptimError::Missing(name.clone()))?;
            if from.size() != tensor.size() {
                return Err(OptimError::Shape { name, expected: tensor.size(), found: from.size() });
            }
            tensor.copy_(from);
        }
        Ok(())
    }
}
