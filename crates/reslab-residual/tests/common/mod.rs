//! What the tests of joins share: a probe branch that counts samples, and tensors from named streams.
#![allow(dead_code)] // Each test file uses a part of it.

use std::cell::RefCell;

use reslab_residual::{
    Branch, BranchKind, DrawStep, DropMode, DropPath, DropPathConfig, Join, Masks, Pass, Schedule, Site, Strategy,
    Stream, Variant, connect,
};
use reslab_torch::{Parameter, Scope, stream};
use tch::{Device, Kind, Tensor};

/// Samples, tokens and width of the tests' tensors; all different, so that a swapped dimension shows.
pub const BATCH: i64 = 10;
pub const TOKENS: i64 = 3;
pub const WIDTH: i64 = 4;

/// Normal values in double precision, the same for the same name.
pub fn normal(name: &str, shape: &[i64]) -> Tensor {
    let mut stream = stream(7, name, &[]);
    let count: i64 = shape.iter().product();
    Tensor::from_slice(&(0..count).map(|_| stream.normal()).collect::<Vec<f64>>()).view(shape)
}

/// A branch of one matrix, with a norm that halves, that notes how many samples it computes.
pub struct Probe {
    pub weight: Tensor,
    pub samples: RefCell<Vec<i64>>,
}

impl Probe {
    pub fn new() -> Probe {
        let weight = normal("probe", &[WIDTH, WIDTH]).set_requires_grad(true);
        Probe { weight, samples: RefCell::default() }
    }

    pub fn computed(&self) -> i64 {
        self.samples.borrow().iter().sum()
    }
}

impl Branch for Probe {
    fn norm(&self, x: &Tensor) -> Tensor {
        x * 0.5
    }
    fn body(&self, h: &Tensor, _pass: &mut Pass) -> Tensor {
        self.samples.borrow_mut().push(h.size()[0]);
        h.matmul(&self.weight)
    }
}

/// A join with its parameters, and a stream to feed it.
pub struct Case {
    pub strategy: Box<dyn Strategy>,
    pub join: Box<dyn Join>,
    pub parameters: Vec<Parameter>,
    pub stream: Box<dyn Stream>,
    /// `[BATCH, TOKENS, S]`
    pub residual: Tensor,
}

pub const SITE: Site =
    Site { block: 1, depth: 4, kind: BranchKind::Mlp, width: WIDTH, num_heads: 2, hidden: 2 * WIDTH };

impl Case {
    /// As at step 0.
    pub fn of(variant: &Variant) -> Case {
        let mut table: toml::Table = variant.example.parse().expect("an example is TOML");
        let kind = table.remove("kind").expect("an example has a kind");
        assert_eq!(kind.as_str(), Some(variant.name), "an example is of its own kind");
        let strategy = (variant.parse)(&table).expect("an example parses");
        Case::new(strategy)
    }

    pub fn new(strategy: Box<dyn Strategy>) -> Case {
        let scope = Scope::new(0, Kind::Double, Device::Cpu);
        let stream = strategy.stream(&scope.child("stream"), WIDTH).expect("a stream opens");
        let x = normal("residual", &[BATCH, TOKENS, WIDTH]);
        let residual = tch::no_grad(|| stream.open(&x, &mut Pass::eval())).detach();
        let join = strategy.join(&scope.child("join"), SITE).expect("a join is built");
        Case { strategy, join, parameters: scope.parameters(), stream, residual }
    }

    /// A pass in which the stream was opened, so that joins find what it remembers.
    pub fn opened(&self, mut pass: Pass) -> Pass {
        let x = normal("residual", &[BATCH, TOKENS, WIDTH]);
        let _ = tch::no_grad(|| self.stream.open(&x, &mut pass));
        pass
    }

    /// The join alone, in evaluation.
    pub fn joined(&self) -> Tensor {
        self.join.forward(&self.residual, &Probe::new(), &mut self.opened(Pass::eval()))
    }

    /// Moves every parameter away from step 0, where zeros hide gradients.
    pub fn moved(self) -> Case {
        tch::no_grad(|| {
            for parameter in &self.parameters {
                let by = normal(&parameter.name, &parameter.tensor.size()) * 0.3 + 0.2;
                let _ = parameter.tensor.shallow_clone().g_add_(&by);
            }
        });
        self
    }

    /// Output and gradients of one join: `y`, then of the residual, of the branch's weight, of every parameter.
    pub fn run(&self, pass: &mut Pass, probe: &Probe) -> Vec<Tensor> {
        let residual = self.residual.detach().set_requires_grad(true);
        let y = connect(&*self.join, SITE, &residual, probe, pass);
        let mut inputs = vec![residual, probe.weight.shallow_clone()];
        inputs.extend(self.parameters.iter().map(|p| p.tensor.shallow_clone()));
        let loss = (&y * normal("weights of the loss", &y.size())).sum(Kind::Double);
        let grads = inputs.iter().map(|input| match try_grad(&loss, input) {
            Some(grad) => grad,
            None => input.zeros_like(),
        });
        let grads: Vec<Tensor> = grads.collect();
        std::iter::once(y.detach()).chain(grads).collect()
    }
}

/// The gradient, or nothing where the loss does not depend on the input.
fn try_grad(loss: &Tensor, input: &Tensor) -> Option<Tensor> {
    Tensor::f_run_backward(&[loss], &[input], true, false)
        .ok()
        .and_then(|mut grads| grads.pop())
        .filter(Tensor::defined)
}

pub fn drop_path(rate: f64, mode: DropMode) -> DropPathConfig {
    DropPathConfig { rate, schedule: Schedule::Uniform, mode }
}

/// The masks of one step for the whole batch.
pub fn masks(config: &DropPathConfig, step: u64) -> Masks {
    let at = DrawStep { seed: 3, step, depth: SITE.depth, batch: BATCH, micro_batches: 1, device: Device::Cpu };
    DropPath::draw(config, &at).pop().expect("one micro-batch")
}

/// A step at which the site is dropped for the whole batch (`all`) or kept, in batch mode.
pub fn batch_step(rate: f64, all: bool) -> u64 {
    let config = drop_path(rate, DropMode::Batch);
    (0..).find(|step| (masks(&config, *step).kept(SITE, 10) == 0) == all).expect("both happen")
}

pub fn assert_same_bits(a: &[Tensor], b: &[Tensor], what: &str) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!(a.equal(b), "{what}: tensor {i} differs");
    }
}

pub fn largest_difference(a: &Tensor, b: &Tensor) -> f64 {
    (a - b).abs().max().double_value(&[])
}
