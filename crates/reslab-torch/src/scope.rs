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
        let name = self.full_name(name);
        if name.split('.').any(|part| !part.contains(|c: char| c.is_ascii_alphanumeric())) {
            return Err(ScopeError::Name(name));
        }
        check(&init, shape).map_err(|problem| ScopeError::Init { name: name.clone(), problem })?;
        if self.lock().names.contains(&name) {
            return Err(ScopeError::Duplicate(name));
        }
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
        let mut registered = self.lock();
        registered.names.insert(name.clone());
        registered.parameters.push(Parameter { name, group, tensor: tensor.shallow_clone() });
        Ok(tensor)
    }

    /// All parameters of the whole tree, in the order of registration.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.lock().parameters.clone()
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
mod tests {
    use super::*;

    const NORMAL: Init = Init::TruncNormal { std: 0.02, gain: 1.0 };

    fn root() -> Scope {
        Scope::new(7, Kind::Double, Device::Cpu)
    }

    fn values(tensor: &Tensor) -> Vec<f64> {
        Vec::try_from(tensor.detach().flatten(0, -1).to_kind(Kind::Double)).unwrap()
    }

    /// 100,000 values of one init.
    fn drawn(init: Init) -> Vec<f64> {
        values(&root().parameter("w", &[100, 1000], init, Group::Decay).unwrap())
    }

    fn mean_square(values: &[f64]) -> f64 {
        values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64
    }

    #[test]
    fn a_name_is_refused_the_second_time_in_the_whole_tree() {
        let scope = root();
        let block = scope.child("blocks").child(format!("{:02}", 7));
        let _ = block.parameter("gamma", &[4], Init::Constant(0.0), Group::Gamma).unwrap();
        let twice = scope.parameter("blocks.07.gamma", &[4], Init::Constant(0.0), Group::Gamma).unwrap_err();
        assert!(matches!(&twice, ScopeError::Duplicate(name) if name == "blocks.07.gamma"), "{twice}");
        assert_eq!(scope.parameters().len(), 1);
        let _ = block.parameter("gamma2", &[4], Init::Constant(0.0), Group::Gamma).unwrap();
    }

    #[test]
    fn parameters_come_in_the_order_of_registration_with_full_names() {
        let scope = root();
        for name in ["z", "a"] {
            let _ = scope.child(name).parameter("weight", &[2], NORMAL, Group::Decay).unwrap();
        }
        let found: Vec<String> = scope.child("other").parameters().into_iter().map(|p| p.name).collect();
        assert_eq!(found, ["z.weight", "a.weight"]);
        assert_eq!(scope.child("a").child("b").path(), "a.b");
    }

    #[test]
    fn an_initial_value_depends_on_seed_and_name_alone() {
        let (lone, crowded) = (root(), root());
        let _ = crowded.parameter("first", &[50], NORMAL, Group::Decay).unwrap();
        let make = |scope: &Scope| values(&scope.child("a").parameter("w", &[3, 5], NORMAL, Group::Decay).unwrap());
        let expected = make(&lone);
        assert_eq!(expected, make(&crowded));
        assert_ne!(expected, make(&root().child("b")));
        assert_ne!(expected, make(&Scope::new(8, Kind::Double, Device::Cpu)));
        let single = values(
            &Scope::new(7, Kind::Float, Device::Cpu).child("a").parameter("w", &[3, 5], NORMAL, Group::Decay).unwrap(),
        );
        assert_eq!(single, expected.iter().map(|&x| f64::from(x as f32)).collect::<Vec<f64>>());
    }

    #[test]
    fn gain_is_exactly_a_factor() {
        let gain = 0.3;
        let scaled = |x: Vec<f64>| x.iter().map(|x| gain * x).collect::<Vec<f64>>();
        assert_eq!(drawn(Init::TruncNormal { std: 0.02, gain }), scaled(drawn(NORMAL)));
        assert_eq!(drawn(Init::Uniform { bound: 0.5, gain }), scaled(drawn(Init::Uniform { bound: 0.5, gain: 1.0 })));
        assert_eq!(drawn(Init::TruncNormal { std: 0.02, gain: 0.0 }), vec![0.0; 100_000]);
    }

    #[test]
    fn a_constant_of_zero_is_zeros_that_train() {
        let gamma = root().parameter("gamma", &[3], Init::Constant(0.0), Group::Gamma).unwrap();
        assert_eq!(values(&gamma), [0.0; 3]);
        assert!(gamma.requires_grad() && gamma.is_leaf());
        (&gamma * 2.0).sum(Kind::Double).backward();
        assert_eq!(values(&gamma.grad()), [2.0; 3]);
    }

    #[test]
    fn given_values_are_taken_in_row_major_order() {
        let init = |count| Init::Values((0..count).map(f64::from).collect());
        let tensor = root().parameter("w", &[2, 3], init(6), Group::Decay).unwrap();
        assert_eq!(tensor.double_value(&[1, 0]), 3.0);
        let problem = root().parameter("w", &[2, 3], init(5), Group::Decay).unwrap_err().to_string();
        assert!(problem.contains("needs 6 initial values, but 5 were given"), "{problem}");
        let scalar = root().parameter("s", &[], Init::Values(vec![4.0]), Group::Gamma).unwrap();
        assert_eq!((scalar.size(), values(&scalar)), (vec![], vec![4.0]));
    }

    /// n = 1e5: the mean square of z is 1 up to sqrt(2 / n) = .0045. At std .02 the cut at 2 is 100 standard deviations
    /// away (a cut at 2 std would leave .774); at std 2 it is one, which leaves a mean square of .2912 * 4.
    #[test]
    fn truncated_normals_are_cut_at_absolute_two() {
        let narrow = drawn(NORMAL);
        assert!((mean_square(&narrow) / 4e-4 - 1.0).abs() < 4.0 * 0.0045);
        assert!(narrow.iter().any(|x| x.abs() > 0.06));
        let wide = drawn(Init::TruncNormal { std: 2.0, gain: 3.0 });
        assert!(wide.iter().all(|x| x.abs() <= 6.0) && wide.iter().any(|x| x.abs() > 5.9));
        assert!((mean_square(&wide) / 9.0 - 0.2912 * 4.0).abs() < 0.02);
    }

    /// n = 1e5: the mean square is bound^2 / 3 up to a standard error of bound^2 * sqrt(4/45 / n) = .00094 bound^2.
    #[test]
    fn uniforms_fill_their_interval() {
        let values = drawn(Init::Uniform { bound: 0.25, gain: 1.0 });
        assert!(values.iter().all(|x| x.abs() <= 0.25));
        assert!((mean_square(&values) / 0.0625 - 1.0 / 3.0).abs() < 4.0 * 0.00094);
        assert!(values.iter().sum::<f64>().abs() / 1e5 < 4.0 * 0.25 / (3.0 * 1e5_f64).sqrt());
    }

    #[test]
    fn a_counting_scope_takes_networks_of_any_size() {
        let scope = Scope::counting();
        let shape = [1 << 20, 1 << 20]; // 4 TB in f32
        let tensor = scope.child("a").parameter("w", &shape, NORMAL, Group::Decay).unwrap();
        assert_eq!((tensor.size(), tensor.numel()), (shape.to_vec(), 1 << 40));
        assert!(tensor.requires_grad());
        let scalar = scope.parameter("gamma", &[], Init::Constant(1.0), Group::Gamma).unwrap();
        assert_eq!((scalar.size(), scalar.numel()), (vec![], 1));
        let parameters = scope.parameters();
        assert_eq!((parameters[0].name.as_str(), parameters[0].group), ("a.w", Group::Decay));
        assert!(matches!(scope.child("a").parameter("w", &[], NORMAL, Group::Decay), Err(ScopeError::Duplicate(_))));
    }

    #[test]
    fn what_cannot_be_made_is_refused_with_name_and_problem() {
        let refused = |name: &str, shape: &[i64], init| {
            let scope = root();
            let problem = scope.child("a").parameter(name, shape, init, Group::Decay).unwrap_err().to_string();
            assert!(scope.parameters().is_empty());
            problem
        };
        assert!(refused("", &[1], NORMAL).contains("`a.`"));
        assert!(refused("b..c", &[1], NORMAL).contains("`a.b..c`"));
        assert!(refused("w", &[2, -1], NORMAL).contains("negative size -1"));
        assert!(refused("w", &[1 << 40, 1 << 40], NORMAL).contains("more values than can be counted"));
        assert!(refused("w", &[1], Init::Constant(f64::NAN)).contains("finite, but is NaN"));
        assert!(refused("w", &[1], Init::TruncNormal { std: -1.0, gain: 1.0 }).contains("std must be at least 0"));
        assert!(refused("w", &[1], Init::TruncNormal { std: f64::NAN, gain: 1.0 }).contains("std must be"));
        assert!(refused("w", &[1], Init::Uniform { bound: 1.0, gain: f64::INFINITY }).contains("gain must be finite"));
    }
}
