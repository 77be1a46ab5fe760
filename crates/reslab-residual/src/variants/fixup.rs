//! Fixup: branches that start at zero, scalar biases and a scalar scale instead of norms.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope, ScopeError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{
    Branch, BranchKind, Gamma, Inner, InnerMap, Join, Norm, Pass, Site, Strategy, StrategyError, Variant, Weight,
};

/// Fixup: `y = x + gamma * f(x + b)` without any norm, a learned scalar gamma and a learned scalar bias before each layer.
/// The last matrix of a branch and the classifier start at 0, the others at Xavier's std times `B^(-1/(2 m - 2))` for
/// the network's B = 2 L branches of m layers.
///
/// Source: Zhang et al. 2019, arXiv:1901.09321, section 3, rules 1 to 3; compared with the authors'
/// `fixup_resnet_cifar.py` and their translation model `transformer_zero.py`, which has m = 2 for the MLP and m = 4 for
/// attention (exponent -1/6), and starts from Xavier's std. Differs: their transformer has no bias before attention's
/// output projection, here is one, by rule 3; their layers have no bias vectors, the trunk's have; their queries, keys and
/// values share one Xavier of a fused matrix, which is smaller by sqrt(2); Xavier's uniform is a truncated normal.
///
/// Shapes: x and y `[B, N, D]`, gamma and biases `[]`: before the branch, before fc2 or the output projection, and before
/// GELU; 7 parameters per block.
///
/// At step 0 gamma is 1 and every bias 0, but the branch is 0: blocks are the identity, and so are all logits 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fixup {
    /// Layers m that the init counts in attention, at least 2. The authors' code has 4: queries, keys, values, output.
    pub attention_layers: u32,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "fixup",
    summary: "no norms; branches and classifier start at 0, scalar biases before layers, a scalar scale per branch",
    equation: "y = x + gamma * f(x + b), last matrix of f = 0, the others * (2 L)^(-1/(2 m - 2)), gamma [] = 1, b [] = 0",
    source: "Zhang et al. 2019 (Fixup), arXiv:1901.09321, section 3",
    example: "kind = \"fixup\"\nattention_layers = 4\n",
    parameters: "7",
    keys: reslab_config::keys::<Fixup>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: Fixup = parse_table("residual", table)?;
    let layers = config.attention_layers;
    require(layers >= 2, "residual.attention_layers", || format!("must be at least 2, but is {layers}"))?;
    Ok(Box::new(config))
}

/// A scalar that starts at 0.
fn bias(scope: &Scope, name: &str) -> Result<Tensor, ScopeError> {
    scope.parameter(name, &[], Init::Constant(0.0), Group::NoDecay)
}

impl Strategy for Fixup {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::None]
    }

    fn join(&self, scope: &Scope, _site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let gamma = scope.parameter("gamma", &[], Init::Constant(1.0), Group::Gamma)?;
        Ok(Box::new(FixupJoin { gamma, bias: bias(scope, "bias")? }))
    }

    fn inner(&self, scope: &Scope, site: Site) -> Result<Inner, StrategyError> {
        let shift = |name: &str| bias(scope, name).map(|bias| Some(Box::new(Shift { bias }) as Box<dyn InnerMap>));
        Ok(match site.kind {
            BranchKind::Attention => Inner { attended: shift("out_bias")?, ..Inner::default() },
            BranchKind::Mlp => {
                Inner { preactivation: shift("gelu_bias")?, hidden: shift("fc2_bias")?, ..Inner::default() }
            }
        })
    }

    fn init_gain(&self, weight: Weight) -> f64 {
        let scaled = |site: Site, layers: u32| {
            weight.xavier_gain() * (2.0 * site.depth as f64).powf(-1.0 / (2.0 * f64::from(layers) - 2.0))
        };
        match weight {
            Weight::Query(site) | Weight::Key(site) | Weight::Value(site) => scaled(site, self.attention_layers),
            Weight::Fc1(site) => scaled(site, 2),
            Weight::Out(_) | Weight::Fc2(_) | Weight::Head => 0.0,
            Weight::Embedding { .. } => 1.0,
        }
    }
}

/// The join of [`Fixup`].
#[derive(Debug)]
struct FixupJoin {
    gamma: Tensor, // []
    bias: Tensor,  // []
}

impl Join for FixupJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        branch.call(&(residual + &self.bias), pass) * &self.gamma
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let output = branch.call(&(residual + &self.bias), pass);
        pass.record_update(|| &output * &self.gamma);
        residual.addcmul(&output, &self.gamma)
    }

    fn gamma(&self) -> Option<Gamma> {
        Some(Gamma { value: self.gamma.shallow_clone(), init: 1.0 })
    }
}

/// Adds a scalar.
#[derive(Debug)]
struct Shift {
    bias: Tensor, // []
}

impl InnerMap for Shift {
    fn map(&self, x: &Tensor, _input: &Tensor, _pass: &mut Pass) -> Tensor {
        x + &self.bias
    }
}
