//! SkipInit: a learned scale per join that starts small.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, Gamma, Join, Norm, Pass, Site, Strategy, StrategyError, Variant};

/// SkipInit: `y = x + gamma * f(x)` with one learned scalar gamma per join.
///
/// Source: De and Smith 2020, arXiv:2002.10444 (the paper's alpha): 0, or at most 1/sqrt(d) with d the number
/// of residual branches, which is what batch norm does to them at step 0. Differs: the paper has ResNets without batch
/// norm; here the own placement is no norm at all, and pre-norm is allowed. Its biases and its regularisation are not
/// part of the join.
///
/// Shapes: x and y `[B, N, D]`, gamma `[]`; 2 parameters per block.
///
/// At step 0 the update is `init * f(x)`. With 0 it is `rezero`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkipInit {
    /// Every gamma at step 0: a finite number, or "depth" for 1/sqrt(2 L), L blocks having 2 L branches.
    pub init: Start,
}

/// A gamma at step 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a number or \"depth\"")]
pub enum Start {
    /// This number.
    Value(f64),
    /// By a rule.
    Rule(Rule),
}

/// How a gamma at step 0 follows from the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// 1 / sqrt(number of residual branches).
    Depth,
}

impl Start {
    fn at(self, depth: usize) -> f64 {
        match self {
            Start::Value(value) => value,
            Start::Rule(Rule::Depth) => 1.0 / (2.0 * depth as f64).sqrt(),
        }
    }
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "skip_init",
    summary: "the branch is scaled by a learned scalar that starts at a number or at 1/sqrt(branches)",
    equation: "y = x + gamma * f(x), gamma [] = init at step 0",
    source: "De and Smith 2020 (SkipInit), arXiv:2002.10444",
    example: "kind = \"skip_init\"\ninit = \"depth\"\n",
    parameters: "2",
    keys: reslab_config::keys::<SkipInit>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: SkipInit = parse_table("residual", table)?;
    let start = config.init.at(1);
    require(start.is_finite(), "residual.init", || format!("must be finite, but is {start}"))?;
    Ok(Box::new(config))
}

impl Strategy for SkipInit {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::None, Norm::Pre]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let init = self.init.at(site.depth);
        let gamma = scope.parameter("gamma", &[], Init::Constant(init), Group::Gamma)?;
        Ok(Box::new(SkipInitJoin { gamma, init }))
    }
}

/// The join of [`SkipInit`].
#[derive(Debug)]
struct SkipInitJoin {
    gamma: Tensor, // []
    init: f64,
}

impl Join for SkipInitJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        branch.call(residual, pass) * &self.gamma
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let output = branch.call(residual, pass);
        pass.record_update(|| &output * &self.gamma);
        residual.addcmul(&output, &self.gamma)
    }

    fn gamma(&self) -> Option<Gamma> {
        Some(Gamma { value: self.gamma.shallow_clone(), init: self.init })
    }
}
