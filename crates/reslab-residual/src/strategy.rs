//! The interface of a strategy: what the block and the trainer know of it.
//!
//! A strategy implements [`Strategy::join`] and overrides what its paper needs; every other method has a default that
//! does nothing.

use std::fmt::Debug;

use reslab_torch::{Parameter, Scope, ScopeError};
use tch::Tensor;

use crate::{Norm, Pass, Site, Weight};

/// Why a strategy could not build or calibrate its parts.
#[derive(Debug, thiserror::Error)]
pub enum StrategyError {
    /// A parameter could not be registered.
    #[error(transparent)]
    Scope(#[from] ScopeError),
    /// Anything else, in the strategy's own words.
    #[error("{0}")]
    Other(String),
}

/// A residual-scaling strategy for a whole network.
pub trait Strategy: Debug + Send + StrategyClone {
    /// The join of one site. Called once per site, in network order.
    ///
    /// # Errors
    /// When a parameter can't be registered.
    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError>;

    /// Norm placements it is defined for, its own first. The block owns the norms; a config that asks for another is
    /// refused.
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre]
    }

    /// Factor on the init std of one weight.
    fn init_gain(&self, _weight: Weight) -> f64 {
        1.0
    }

    /// The stream, opened before block 0 and closed after the last (several streams, a final query).
    ///
    /// # Errors
    /// When a parameter can't be registered.
    fn stream(&self, _scope: &Scope, width: i64) -> Result<Box<dyn Stream>, StrategyError> {
        Ok(Box::new(OneStream { width }))
    }

    /// Maps inside a branch: on the queries, keys and values, on the attention's output before its projection, before
    /// and behind the MLP's GELU.
    ///
    /// # Errors
    /// When a parameter can't be registered.
    fn inner(&self, _scope: &Scope, _site: Site) -> Result<Inner, StrategyError> {
        Ok(Inner::default())
    }

    /// Factors on learning rate, weight decay and Adam's eps of one parameter, in a network of `depth` blocks.
    fn optim_scale(&self, _parameter: &Parameter, _depth: usize) -> OptimScale {
        OptimScale::ONE
    }

    /// What the plan adds to the keys of a run, so that it is this run for ever: the checksum of a file that a key names.
    /// Parsed again with it, the strategy refuses another content.
    fn pins(&self) -> toml::Table {
        toml::Table::new()
    }

    /// Whether joins or maps read what earlier ones left in the pass ([`Pass::recall`]): such tensors are of the whole
    /// batch, so drop path can't hand a join a part of it.
    fn uses_memory(&self) -> bool {
        false
    }

    /// Whether its joins part a token from the mean over all of them, which says nothing where a class token stands alone.
    fn needs_tokens(&self) -> bool {
        false
    }

    /// Before step 0, with one batch. The trainer always calls it. `parameters` are the network's; they are changed in
    /// place, under a no-grad guard that the caller holds.
    ///
    /// # Errors
    /// When what it measures can't be used.
    fn calibrate(&self, _network: &dyn Network, _parameters: &[Parameter]) -> Result<(), StrategyError> {
        Ok(())
    }

    /// After every optimizer step, under a no-grad guard that the caller holds. The trainer always calls it.
    fn constrain(&self, _parameters: &[Parameter]) {}
}

/// Copies a boxed strategy. Every `Strategy` that is `Clone` has it.
pub trait StrategyClone {
    /// A copy in a box of its own.
    fn clone_box(&self) -> Box<dyn Strategy>;
}

impl<T: Strategy + Clone + 'static> StrategyClone for T {
    fn clone_box(&self) -> Box<dyn Strategy> {
        Box::new(self.clone())
    }
}

/// The network with a batch at hand, as [`Strategy::calibrate`] sees it.
pub trait Network {
    /// One forward pass of the batch; what is observed or remembered is left in `pass`.
    fn run(&self, pass: &mut Pass);
}

/// Attention or MLP: `call(x) = body(norm(x))`; a join may use the two parts apart.
pub trait Branch {
    /// The branch's norm, the identity where the placement has none before the branch. `[B, N, D] -> [B, N, D]`.
    fn norm(&self, x: &Tensor) -> Tensor;

    /// The branch behind its norm. `[B, N, D] -> [B, N, D]`.
    fn body(&self, h: &Tensor, pass: &mut Pass) -> Tensor;

    /// The whole branch: `f`. `[B, N, D] -> [B, N, D]`.
    fn call(&self, x: &Tensor, pass: &mut Pass) -> Tensor {
        self.body(&self.norm(x), pass)
    }
}

/// One join. residual `[B, N, S]` -> what the block continues with, `[B, N, S]`.
pub trait Join: Debug + Send {
    /// What is added to the residual: the form for additive strategies. residual `[B, N, S] -> [B, N, S]`.
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor;

    /// Default: residual + update. Overridden where a strategy is not additive, or to use fewer kernels; it then tells
    /// its update to [`Pass::record_update`] (without that, telemetry takes the rounded difference).
    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let update = self.update(residual, branch, pass);
        pass.record_update(|| update.shallow_clone());
        residual + update
    }

    /// How drop path acts here.
    fn drop_rule(&self) -> DropRule {
        DropRule::Scaled
    }

    /// The learned scale, for telemetry.
    fn gamma(&self) -> Option<Gamma> {
        None
    }
}

/// A learned scale of a branch.
#[derive(Debug)]
pub struct Gamma {
    /// Its present value, `[]` or `[D]`.
    pub value: Tensor,
    /// Its value at step 0: a flipped sign is one against this. 0: no sign can flip.
    pub init: f64,
}

/// How drop path acts on a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropRule {
    /// The update is masked and divided by keep_prob: right where the update is linear in the branch.
    Scaled,
    /// The branch's output is masked and divided, and mixing goes on: several streams, memory.
    Branch,
    /// Drop path is not defined here, for this reason.
    Refused(&'static str),
}

/// The residual stream as a whole.
pub trait Stream: Debug + Send {
    /// Width S of the stream between the blocks.
    fn width(&self) -> i64;
    /// Before block 0: `[B, N, D] -> [B, N, S]`.
    fn open(&self, x: &Tensor, pass: &mut Pass) -> Tensor;
    /// After the last block: `[B, N, S] -> [B, N, D]`.
    fn close(&self, stream: &Tensor, pass: &mut Pass) -> Tensor;
}

/// One stream of the network's own width: opened and closed by doing nothing.
#[derive(Debug, Clone, Copy)]
pub struct OneStream {
    /// The network's width D.
    pub width: i64,
}

impl Stream for OneStream {
    fn width(&self) -> i64 {
        self.width
    }
    fn open(&self, x: &Tensor, _pass: &mut Pass) -> Tensor {
        x.shallow_clone()
    }
    fn close(&self, stream: &Tensor, _pass: &mut Pass) -> Tensor {
        stream.shallow_clone()
    }
}

/// A map inside a branch. Absent maps cost nothing.
pub trait InnerMap: Debug + Send {
    /// `x` is what is mapped; `input` is the branch's input behind its norm, `[B, N, D]`.
    fn map(&self, x: &Tensor, input: &Tensor, pass: &mut Pass) -> Tensor;
}

/// The maps inside one branch. A site's own kind decides which of them are used.
#[derive(Debug, Default)]
pub struct Inner {
    /// On the queries, `[B, H, N, D/H]`.
    pub queries: Option<Box<dyn InnerMap>>,
    /// On the keys, `[B, H, N, D/H]`.
    pub keys: Option<Box<dyn InnerMap>>,
    /// On the values, `[B, H, N, D/H]`.
    pub values: Option<Box<dyn InnerMap>>,
    /// On the attention's output before its projection, `[B, N, D]`.
    pub attended: Option<Box<dyn InnerMap>>,
    /// On the output of fc1 before GELU, `[B, N, mlp_ratio * D]`.
    pub preactivation: Option<Box<dyn InnerMap>>,
    /// On the input of fc2, `[B, N, mlp_ratio * D]`.
    pub hidden: Option<Box<dyn InnerMap>>,
}

/// Factors on the optimizer's settings for one parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptimScale {
    /// On the learning rate.
    pub lr: f64,
    /// On the weight decay.
    pub weight_decay: f64,
    /// On Adam's eps.
    pub eps: f64,
}

impl OptimScale {
    /// No change.
    pub const ONE: OptimScale = OptimScale { lr: 1.0, weight_decay: 1.0, eps: 1.0 };
}
