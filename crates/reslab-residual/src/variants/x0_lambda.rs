//! Residual and embedding lambdas: every block starts from a learned mix of the stream and the embedding.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, BranchKind, DropRule, Join, Norm, Pass, Site, Strategy, StrategyError, Stream, Variant};

/// Residual and embedding lambdas: every block begins with `x <- rho x + lambda x_0`, with x_0 what entered the first block;
/// the joins are plain, `y = x + f(x)`.
///
/// Source: karpathy/nanochat, `nanochat/gpt.py` at 92d63d4 (`resid_lambdas`, `x0_lambdas`), after modded-nanogpt; no paper.
/// Its inits fall linearly over the blocks, rho from 1.15 to 1.05 and lambda from .20 to .05. Differs: x_0 is the
/// embedding as it is (there it is RMS-normed), and the optimizer treats the scalars as any other (there with learning rates
/// and betas of their own).
///
/// Shapes: x and x_0 `[B, N, D]`; rho and lambda `[]`, one of each per block, at its attention.
///
/// At step 0 attention's join is `y = rho x + lambda x_0 + f(rho x + lambda x_0)`; in the first block x is x_0. With 1, 1, 0,
/// 0 the network starts as the plain one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct X0Lambda {
    /// rho of the first block at step 0; any finite number. Blocks between get what lies between.
    pub residual_first: f64,
    /// rho of the last block at step 0.
    pub residual_last: f64,
    /// lambda of the first block at step 0.
    pub embedding_first: f64,
    /// lambda of the last block at step 0.
    pub embedding_last: f64,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "x0_lambda",
    summary: "every block starts from a learned mix of the stream and the embedding",
    equation: "y = x + f(x), and x <- rho x + lambda x_0 before every block",
    source: "karpathy/nanochat, nanochat/gpt.py (resid_lambdas, x0_lambdas)",
    example: "kind = \"x0_lambda\"\nresidual_first = 1.15\nresidual_last = 1.05\nembedding_first = 0.2\nembedding_last = 0.05\n",
    parameters: "2",
    keys: reslab_config::keys::<X0Lambda>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: X0Lambda = parse_table("residual", table)?;
    let X0Lambda { residual_first, residual_last, embedding_first, embedding_last } = config;
    for (key, value) in [
        ("residual.residual_first", residual_first),
        ("residual.residual_last", residual_last),
        ("residual.embedding_first", embedding_first),
        ("residual.embedding_last", embedding_last),
    ] {
        require(value.is_finite(), key, || format!("must be finite, but is {value}"))?;
    }
    Ok(Box::new(config))
}

impl Strategy for X0Lambda {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn stream(&self, _scope: &Scope, width: i64) -> Result<Box<dyn Stream>, StrategyError> {
        Ok(Box::new(Remembering { width }))
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        if site.kind == BranchKind::Mlp {
            return Ok(Box::new(LambdaJoin { lambdas: None }));
        }
        let share = site.block as f64 / (site.depth.max(2) - 1) as f64;
        let scalar = |name: &str, first: f64, last: f64| {
            scope.parameter(name, &[], Init::Constant(first + (last - first) * share), Group::NoDecay)
        };
        let rho = scalar("rho", self.residual_first, self.residual_last)?;
        let lambda = scalar("lambda", self.embedding_first, self.embedding_last)?;
        Ok(Box::new(LambdaJoin { lambdas: Some([rho, lambda]) }))
    }

    fn uses_memory(&self) -> bool {
        true
    }
}

/// The name of x_0 in the pass's memory.
const X0: &str = "x0_lambda.x0";

/// One stream, whose opening is kept.
#[derive(Debug)]
struct Remembering {
    width: i64,
}

impl Stream for Remembering {
    fn width(&self) -> i64 {
        self.width
    }
    fn open(&self, x: &Tensor, pass: &mut Pass) -> Tensor {
        pass.remember(X0, x.shallow_clone());
        x.shallow_clone()
    }
    fn close(&self, stream: &Tensor, _pass: &mut Pass) -> Tensor {
        stream.shallow_clone()
    }
}

/// The join of [`X0Lambda`].
#[derive(Debug)]
struct LambdaJoin {
    lambdas: Option<[Tensor; 2]>, // [], at attention
}

impl Join for LambdaJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        self.forward(residual, branch, pass) - residual
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let mixed = match &self.lambdas {
            Some([rho, lambda]) => {
                let x0 = pass.recall(X0).expect("the stream was opened");
                (residual * rho).addcmul(x0, lambda)
            }
            None => residual.shallow_clone(),
        };
        let output = branch.call(&mixed, pass);
        mixed + output
    }

    fn drop_rule(&self) -> DropRule {
        DropRule::Branch
    }
}
