//! DeepNorm: post-norm with a larger residual and smaller weights.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, DropRule, Join, Norm, Pass, Site, Strategy, StrategyError, Variant, Weight};

/// DeepNorm: `y = LN(alpha * x + f(x))` with `alpha = (2 L)^alpha_exponent`; the init of the values' projection, the
/// output projection, fc1 and fc2 is scaled by `beta = (8 L)^-beta_exponent`. L is the number of blocks; the norm is
/// the block's (placement `post`).
///
/// Source: Wang et al. 2022 (DeepNet), arXiv:2203.00555, figure 2, the formula for encoder-only networks; compared with
/// torchscale's `architecture/encoder.py`, which has the same alpha and beta. Differs: with `xavier = true` matrices
/// are truncated normals of Xavier's std, not normals; torchscale leaves PyTorch's init, or BERT's std .02, which is
/// `xavier = false`; and torchscale also divides the biases of these layers, which here are 0.
///
/// Shapes: x and y `[B, N, D]`. No parameters beside the block's norms.
///
/// At step 0 the sum is `alpha * x + f(x)`: the deeper the network, the less a block changes its input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeepNorm {
    /// alpha = (2 * depth) ^ alpha_exponent. The paper's is 0.25; 0: alpha is 1, post-norm's.
    pub alpha_exponent: f64,
    /// beta = (8 * depth) ^ -beta_exponent. The paper's is 0.25; 0: beta is 1.
    pub beta_exponent: f64,
    /// Whether the matrices of the blocks start from Xavier's std, as in the paper, before beta acts; else from the
    /// network's own .02.
    pub xavier: bool,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "deep_norm",
    summary: "post-norm; the residual is scaled up and weights start smaller, both by depth",
    equation: "y = LN(alpha * x + f(x)), alpha = (2 L)^0.25; weights of v, out, fc1, fc2 times beta = (8 L)^-0.25",
    source: "Wang et al. 2022 (DeepNet), arXiv:2203.00555, figure 2, encoder-only; torchscale's encoder.py",
    example: "kind = \"deep_norm\"\nalpha_exponent = 0.25\nbeta_exponent = 0.25\nxavier = true\n",
    parameters: "0",
    keys: reslab_config::keys::<DeepNorm>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: DeepNorm = parse_table("residual", table)?;
    for (key, value) in [("alpha_exponent", config.alpha_exponent), ("beta_exponent", config.beta_exponent)] {
        require(value.is_finite(), &format!("residual.{key}"), || format!("must be finite, but is {value}"))?;
    }
    Ok(Box::new(config))
}

impl Strategy for DeepNorm {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Post]
    }

    fn join(&self, _scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(DeepNormJoin { alpha: (2.0 * site.depth as f64).powf(self.alpha_exponent) }))
    }

    fn init_gain(&self, weight: Weight) -> f64 {
        let base = if self.xavier { weight.xavier_gain() } else { 1.0 };
        match weight {
            Weight::Value(site) | Weight::Out(site) | Weight::Fc1(site) | Weight::Fc2(site) => {
                base * (8.0 * site.depth as f64).powf(-self.beta_exponent)
            }
            _ => base,
        }
    }
}

/// The join of [`DeepNorm`]; its norm is the block's.
#[derive(Debug)]
struct DeepNormJoin {
    alpha: f64,
}

impl Join for DeepNormJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        residual * (self.alpha - 1.0) + branch.call(residual, pass)
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let output = branch.call(residual, pass);
        pass.record_update(|| residual * (self.alpha - 1.0) + &output);
        residual * self.alpha + output
    }

    fn drop_rule(&self) -> DropRule {
        DropRule::Branch
    }
}
