//! Parameters by name: a tree of scopes that registers, initialises and groups them.
//!
//! Against tch's `VarStore`: a second parameter of one name is an error (there it is renamed), order is the order of
//! registration (there a hash map), and each value is a function of seed and name alone, so that runs which share a
//! parameter's name share its initial value, whatever else they hold.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard};

use tch::{Device, Kind, TchError, Tensor};

use crate::stream::{Stream, stream};

/// What the optimizer does with a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Group {
    /// Weight decay applies.
    Decay,
    /// No weight decay: parameters of at most one dimension, positions, class and register tokens.
    NoDecay,
    /// A learned scale of a branch: no weight decay, and reported apart.
    Gamma,
}

/// The value of a parameter at step 0. `gain` is an exact factor on what would be drawn without it.
#[derive(Debug, Clone, PartialEq)]
pub enum Init {
    /// The same number everywhere; zero is a value like any other.
    Constant(f64),
    /// These numbers, in row-major order.
    Values(Vec<f64>),
    /// `gain * (std * z)` with z standard normal and `std * z` cut at absolute +-2, as timm's `trunc_normal_`.
    TruncNormal {
        /// Standard deviation before the cut.
        std: f64,
        /// Factor on the drawn value.
        gain: f64,
    },
    /// `gain * u` with u uniform in [-bound, bound).
    Uniform {
        /// Half of the width of the interval.
        bound: f64,
        /// Factor on the drawn value.
        gain: f64,
    },
}

/// A registered parameter.
#[derive(Debug)]
pub struct Parameter {
    /// Full dotted name, equal to the module path: `blocks.07.mlp.join.gamma`.
    pub name: String,
    /// Its optimizer group.
    pub group: Group,
    /// The leaf tensor (a shallow clone of it: storage and gradient are shared).
    pub tensor: Tensor,
}

impl Clone for Parameter {
    /// Shares storage and gradient.
    fn clone(&self) -> Self {
        Parameter { name: self.name.clone(), group: self.group, tensor: self.tensor.shallow_clone() }
    }
}

/// Why a parameter was refused.
#[derive(Debug, thiserror::Error)]
pub enum ScopeError {
    /// The name is taken.
    #[error("parameter `{0}` is registered twice; give one of the two another name or scope")]
    Duplicate(String),
    /// The name is empty or has a part that is.
    #[error("`{0}` cannot name a parameter: each of its parts between dots needs a letter or digit")]
    Name(String),
    /// The numbers given for the initial value cannot be used.
    #[error("parameter `{name}`: {problem}")]
    Init {
        /// Full name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// libtorch failed, as by running out of memory.
    #[error("parameter `{name}` of shape {shape:?} could not be made: {source}")]
    Torch {
        /// Full name.
        name: String,
        /// The shape that was asked for.
        shape: Vec<i64>,
        /// libtorch's words.
        source: TchError,
    },
}

/// How tensors are made.
#[derive(Debug, Clone, Copy)]
enum Mode {
    /// Real values.
    Draw { seed: u64, kind: Kind, device: Device },
    /// Shapes without values or memory.
    Count,
}

#[derive(Debug, Default)]
struct Registered {
    parameters: Vec<Parameter>,
    names: HashSet<String>,
}

/// A place in the tree of parameters. Cheap to clone; all scopes of a tree share one list.
#[derive(Debug, Clone)]
pub struct Scope {
    path: String,
    mode: Mode,
    registered: Arc<Mutex<Registered>>,
}

impl Scope {
    /// The root of a new tree, whose tensors have this kind and stand on this device.
    pub fn new(seed: u64, kind: Kind, device: Device) -> Scope {
        Scope::root(Mode::Draw { seed, kind, device })
    }

    /// The root of a tree that knows shapes only: tensors are zeros expanded from one number, nothing is drawn. For
    /// counting parameters of networks of any size.
    pub fn counting() -> Scope {
        Scope::root(Mode::Count)
    }

    fn root(mode: Mode) -> Scope {
        Scope { path: String::new(), mode, registered: Arc::default() }
    }

    /// A scope below this one. The name may hold dots, as `blocks.07`.
    pub fn child(&self, name: impl Display) -> Scope {
        Scope { path: self.full_name(&name.to_string()), mode: self.mode, registered: Arc::clone(&self.registered) }
    }

    /// Dotted path from the root, which itself is "".
    pub fn path(&self) -> String {
        self.path.clone()
    }

    /// Registers a parameter and gives its leaf tensor, which requires a gradient.
    pub fn parameter(&self, name: &str, shape: &[i64], init: Init, group: Group) -> Result<Tensor, ScopeError> {
        let name = self.free_name(name)?;
        check(&init, shape).map_err(|problem| ScopeError::Init { name: name.clone(), problem })?;
        let tensor = match self.mode {
            Mode::Count => Tensor::f_zeros([], (Kind::Float, Device::Cpu)).and_then(|zero| zero.f_expand(shape, false)),
            Mode::Draw { seed, kind, device } => {
                let stream = stream(seed, &format!("init/{name}"), &[]);
                fill(stream, shape, &init, kind).and_then(|values| values.f_to_device(device))
            }
        };
        let tensor = tensor
            .and_then(|tensor| tensor.f_detach()?.f_set_requires_grad(true))
            .map_err(|source| ScopeError::Torch { name: name.clone(), shape: shape.to_vec(), source })?;
        self.register(Parameter { name, group, tensor: tensor.shallow_clone() });
        Ok(tensor)
    }

    /// Registers a leaf tensor that something else holds, a module from PyTorch: it keeps its value, gets this tree's kind
    /// and device in place, and requires a gradient. Its holder and the optimizer then share storage and gradient.
    pub fn adopt(&self, name: &str, tensor: &Tensor, group: Group) -> Result<(), ScopeError> {
        let name = self.free_name(name)?;
        let mut tensor = tensor.shallow_clone();
        let adopted = match self.mode {
            Mode::Count => Ok(tensor.shallow_clone()),
            Mode::Draw { kind, device, .. } => tensor
                .f_detach()
                .and_then(|value| value.f_to_kind(kind)?.f_to_device(device)?.f_contiguous())
                .and_then(|value| tensor.f_set_data(&value))
                .and_then(|()| tensor.f_set_requires_grad(true)),
        };
        let tensor =
            adopted.map_err(|source| ScopeError::Torch { name: name.clone(), shape: tensor.size(), source })?;
        self.register(Parameter { name, group, tensor });
        Ok(())
    }

    /// Where this tree's tensors stand.
    pub fn device(&self) -> Device {
        match self.mode {
            Mode::Count => Device::Cpu,
            Mode::Draw { device, .. } => device,
        }
    }

    /// All parameters of the whole tree, in the order of registration.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.lock().parameters.clone()
    }

    /// The full name, if it is one and not taken.
    fn free_name(&self, name: &str) -> Result<String, ScopeError> {
        let name = self.full_name(name);
        if name.split('.').any(|part| !part.contains(|c: char| c.is_ascii_alphanumeric())) {
            return Err(ScopeError::Name(name));
        }
        if self.lock().names.contains(&name) { Err(ScopeError::Duplicate(name)) } else { Ok(name) }
    }

    fn register(&self, parameter: Parameter) {
        let mut registered = self.lock();
        registered.names.insert(parameter.name.clone());
        registered.parameters.push(parameter);
    }

    fn full_name(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_string() } else { format!("{}.{name}", self.path) }
    }

    fn lock(&self) -> MutexGuard<'_, Registered> {
        self.registered.lock().expect("no code panics while it holds the list of parameters")
    }
}

/// Refuses numbers from which no finite parameter of this shape can be made.
fn check(init: &Init, shape: &[i64]) -> Result<(), String> {
    if let Some(size) = shape.iter().find(|&&size| size < 0) {
        return Err(format!("its shape {shape:?} holds the negative size {size}"));
    }
    let count = shape.iter().try_fold(1i64, |count, &size| count.checked_mul(size));
    let count = count.ok_or_else(|| format!("its shape {shape:?} holds more values than can be counted"))?;
    let finite = |what: &str, value: f64| {
        if value.is_finite() { Ok(()) } else { Err(format!("{what} must be finite, but is {value}")) }
    };
    let spread = |what: &str, value: f64| {
        if value >= 0.0 { finite(what, value) } else { Err(format!("{what} must be at least 0, but is {value}")) }
    };
    match init {
        Init::Constant(value) => finite("its initial value", *value),
        Init::Values(values) if values.len() as i64 != count => {
            Err(format!("its shape {shape:?} needs {count} initial values, but {} were given", values.len()))
        }
        Init::Values(values) => values.iter().try_for_each(|&value| finite("its initial value", value)),
        Init::TruncNormal { std, gain } => spread("std", *std).and(finite("gain", *gain)),
        Init::Uniform { bound, gain } => spread("bound", *bound).and(finite("gain", *gain)),
    }
}

/// A host tensor with the initial value. All arithmetic is in f64 and rounded once, to `kind`.
fn fill(mut stream: Stream, shape: &[i64], init: &Init, kind: Kind) -> Result<Tensor, TchError> {
    let count = shape.iter().product::<i64>() as usize;
    match init {
        Init::Constant(value) => Tensor::f_full(shape, *value, (kind, Device::Cpu)),
        Init::Values(values) => upload(shape, kind, values.iter().copied()),
        Init::TruncNormal { std, gain } => {
            upload(shape, kind, (0..count).map(|_| gain * trunc_normal(&mut stream, *std)))
        }
        Init::Uniform { bound, gain } => {
            upload(shape, kind, (0..count).map(|_| gain * (bound * (2.0 * stream.uniform() - 1.0))))
        }
    }
}

/// `std * z`, cut at absolute +-2 by drawing again.
fn trunc_normal(stream: &mut Stream, std: f64) -> f64 {
    loop {
        let value = std * stream.normal();
        if value.abs() <= 2.0 {
            return value;
        }
    }
}

/// One copy from an iterator into a tensor.
fn upload(shape: &[i64], kind: Kind, values: impl Iterator<Item = f64>) -> Result<Tensor, TchError> {
    let flat = match kind {
        Kind::Float => Tensor::f_from_slice(&values.map(|value| value as f32).collect::<Vec<f32>>())?,
        _ => Tensor::f_from_slice(&values.collect::<Vec<f64>>())?.f_to_kind(kind)?,
    };
    flat.f_view(shape)
}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
