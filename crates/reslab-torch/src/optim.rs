//! Optimizers: one fused call per group, and a state of plain tensors that can be saved and loaded.
//!
//! With learning rate `lr = step's lr * lr_scale`, gradient g and step count t (from 1), per element:
//!
//! ```text
//! AdamW  w -= lr * weight_decay * w            decoupled: as torch.optim.AdamW, the decay is scaled by lr and not by the moments
//!        m = beta1 * m + (1 - beta1) * g
//!        v = beta2 * v + (1 - beta2) * g^2
//!        w -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps * eps_scale)
//! SGD    d = g + weight_decay * w              coupled, as torch.optim.SGD: the decay goes through the momentum
//!        b = momentum * b + d                  no dampening, no Nesterov; b = 0 before the first step
//!        w -= lr * b
//! ```

use std::collections::{BTreeMap, HashSet};

use tch::{Kind, Tensor};

use crate::scope::Parameter;
use crate::{ffi, foreach};

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

/// Parameters that are stepped alike, in one call.
#[derive(Debug)]
pub struct OptimGroup {
    /// For reports.
    pub name: String,
    /// Its parameters, of one kind and on one device.
    pub parameters: Vec<Parameter>,
    /// Factor on the step's learning rate.
    pub lr_scale: f64,
    /// Factor on AdamW's eps; SGD has none.
    pub eps_scale: f64,
    /// Weight decay, decoupled in AdamW and coupled in SGD.
    pub weight_decay: f64,
}

/// Why a step or a restored state failed.
#[derive(Debug, thiserror::Error)]
pub enum OptimError {
    /// libtorch failed.
    #[error("the step of optimizer group `{group}` failed: {problem}")]
    Step {
        /// The group's name.
        group: String,
        /// libtorch's words.
        problem: String,
    },
    /// The state lacks a tensor.
    #[error("the saved optimizer state lacks `{0}`; was it written by a run of another network or optimizer?")]
    Missing(String),
    /// A tensor of the state has another shape.
    #[error("the saved optimizer state `{name}` must have shape {expected:?}, but has {found:?}")]
    Shape {
        /// Name of the tensor.
        name: String,
        /// Shape that is needed.
        expected: Vec<i64>,
        /// Shape that was given.
        found: Vec<i64>,
    },
    /// A tensor of the state could not be copied in.
    #[error("the saved optimizer state `{name}` could not be loaded: {source}")]
    Load {
        /// Name of the tensor.
        name: String,
        /// libtorch's words.
        source: tch::TchError,
    },
}

/// One kind of state: a tensor per parameter of a group.
#[derive(Debug)]
struct Slot {
    name: &'static str,
    tensors: Vec<Tensor>,
}

/// A group, its leaf tensors as a list, and its state.
#[derive(Debug)]
struct Stepped {
    group: OptimGroup,
    tensors: Vec<Tensor>,
    slots: Vec<Slot>,
}

/// An optimizer over groups of parameters.
#[derive(Debug)]
pub struct Optimizer {
    kind: OptimKind,
    groups: Vec<Stepped>,
}

impl Optimizer {
    /// All state starts at zero.
    ///
    /// # Panics
    /// If a parameter is in two groups.
    pub fn new(kind: OptimKind, groups: Vec<OptimGroup>) -> Optimizer {
        let mut names = HashSet::new();
        for parameter in groups.iter().flat_map(|group| &group.parameters) {
            assert!(names.insert(&parameter.name), "parameter `{}` is in two optimizer groups", parameter.name);
        }
        let stepped = |group: OptimGroup| {
            let tensors = group.parameters.iter().map(|parameter| parameter.tensor.shallow_clone()).collect();
            Stepped { slots: slots(kind, &group.parameters), tensors, group }
        };
        Optimizer { kind, groups: groups.into_iter().map(stepped).collect() }
    }

    /// The groups, in the order given.
    pub fn groups(&self) -> impl Iterator<Item = &OptimGroup> {
        self.groups.iter().map(|stepped| &stepped.group)
    }

    /// One step at this learning rate. A parameter without a gradient is stepped with a gradient of zeros.
    pub fn step(&mut self, lr: f64) -> Result<(), OptimError> {
        for stepped in self.groups.iter().filter(|stepped| !stepped.tensors.is_empty()) {
            stepped
                .step(self.kind, lr)
                .map_err(|problem| OptimError::Step { group: stepped.group.name.clone(), problem })?;
        }
        Ok(())
    }

    /// Forgets all gradients, in one call per group; a step takes a missing one as zeros.
    pub fn zero_grad(&mut self) {
        for stepped in &self.groups {
            foreach::forget_grads(&stepped.tensors);
        }
    }

    /// The state as `<parameter>.<exp_avg | exp_avg_sq | step | momentum>`, in the order of groups and parameters.
    /// The tensors are the live ones, not copies.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        let mut state = Vec::new();
        for Stepped { group, slots, .. } in &self.groups {
            for (index, parameter) in group.parameters.iter().enumerate() {
                for slot in slots {
                    state.push((format!("{}.{}", parameter.name, slot.name), slot.tensors[index].shallow_clone()));
                }
            }
        }
        state
    }

    /// Copies a saved state in; entries of other names are not looked at. Nothing is changed unless all of it fits.
    pub fn load_state(&mut self, saved: &BTreeMap<String, Tensor>) -> Result<(), OptimError> {
        let _guard = tch::no_grad_guard();
        let mut pairs = Vec::new();
        for (name, into) in self.state() {
            let Some(from) = saved.get(&name) else { return Err(OptimError::Missing(name)) };
            if from.size() != into.size() {
                return Err(OptimError::Shape { name, expected: into.size(), found: from.size() });
            }
            pairs.push((name, into, from));
        }
        for (name, mut into, from) in pairs {
            into.f_copy_(from).map_err(|source| OptimError::Load { name, source })?;
        }
        Ok(())
    }
}

impl Stepped {
    fn step(&self, kind: OptimKind, lr: f64) -> Result<(), String> {
        let OptimGroup { lr_scale, eps_scale, weight_decay, .. } = self.group;
        let lr = lr * lr_scale;
        let grads = dense_grads(&self.group.parameters);
        match (kind, self.slots.as_slice()) {
            (OptimKind::AdamW { beta1, beta2, eps }, [m, v, t]) => ffi::fused_adamw_(
                [&self.tensors, &grads, &m.tensors, &v.tensors, &t.tensors],
                ffi::AdamW { lr, beta1, beta2, weight_decay, eps: eps * eps_scale },
            ),
            (OptimKind::Sgd { momentum }, buffers) => {
                let buffers = buffers.first().map_or(&[] as &[Tensor], |slot| &slot.tensors);
                ffi::fused_sgd_(&self.tensors, &grads, buffers, ffi::Sgd { lr, momentum, weight_decay })
            }
            (OptimKind::AdamW { .. }, _) => unreachable!("AdamW is made with three slots"),
        }
    }
}

/// Gradients in the layout that the fused CPU kernels take for granted.
fn dense_grads(parameters: &[Parameter]) -> Vec<Tensor> {
    let dense = |grad: Tensor| if grad.is_contiguous() { grad } else { grad.contiguous() };
    foreach::grads(parameters).into_iter().map(dense).collect()
}

/// The state that an update rule keeps, at zero. Step counts are f32 scalars on the device, as the fused kernels want.
fn slots(kind: OptimKind, parameters: &[Parameter]) -> Vec<Slot> {
    let zeros = |name| Slot { name, tensors: parameters.iter().map(|p| p.tensor.detach().zeros_like()).collect() };
    let count = |parameter: &Parameter| Tensor::zeros([], (Kind::Float, parameter.tensor.device()));
    match kind {
        OptimKind::AdamW { .. } => {
            let steps = Slot { name: "step", tensors: parameters.iter().map(count).collect() };
            vec![zeros("exp_avg"), zeros("exp_avg_sq"), steps]
        }
        OptimKind::Sgd { momentum: 0.0 } => Vec::new(),
        OptimKind::Sgd { .. } => vec![zeros("momentum")],
    }
}
