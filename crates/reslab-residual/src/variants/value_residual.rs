//! Value residual: every block's attention also reads the first block's values.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, BranchKind, Inner, InnerMap, Join, Norm, Pass, Site, Strategy, StrategyError, Variant};

/// Value residual (ResFormer): `V <- first * V_1 + own * V` in the attention of every block but the first, with V_1 the
/// values of the first; the joins are plain, `y = x + f(x)`.
///
/// Source: Zhou et al. 2024, arXiv:2410.17897, eq. (6) (identity and learnable ResFormer); vit-pytorch's
/// `simple_vit_with_value_residual.py` mixes by halves. Differs: nothing; both lambdas are scalars per block as in the
/// paper, not per head. Where drop path leaves out the first block's attention, V_1 is that of the first block computed.
///
/// Shapes: V `[B, H, N, D/H]`; if learned, `lambdas` `[2]` (of V_1, of V) for every block but the first.
///
/// At step 0 the values are `first * V_1 + own * V`: .5 and .5 in the paper, 0 and 1 is the plain network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValueResidual {
    /// Factor on the first block's values (lambda 1), at step 0 if learned; any finite number.
    pub first: f64,
    /// Factor on the block's own values (lambda 2), likewise.
    pub own: f64,
    /// Whether each block learns its two factors.
    pub learned: bool,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "value_residual",
    summary: "attention's values are mixed with those of the first block",
    equation: "y = x + f(x); in attention V <- first * V_1 + own * V, V_1 of the first block",
    source: "Zhou et al. 2024 (ResFormer), arXiv:2410.17897, eq. (6)",
    example: "kind = \"value_residual\"\nfirst = 0.5\nown = 0.5\nlearned = true\n",
    parameters: "2",
    keys: reslab_config::keys::<ValueResidual>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: ValueResidual = parse_table("residual", table)?;
    for (key, value) in [("residual.first", config.first), ("residual.own", config.own)] {
        require(value.is_finite(), key, || format!("must be finite, but is {value}"))?;
    }
    Ok(Box::new(config))
}

impl Strategy for ValueResidual {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn join(&self, _scope: &Scope, _site: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(ValueJoin))
    }

    fn inner(&self, scope: &Scope, site: Site) -> Result<Inner, StrategyError> {
        if site.kind != BranchKind::Attention {
            return Ok(Inner::default());
        }
        let learns = self.learned && site.block > 0;
        let init = || Init::Values(vec![self.first, self.own]);
        let learned = learns.then(|| scope.parameter("lambdas", &[2], init(), Group::NoDecay)).transpose()?;
        Ok(Inner { values: Some(Box::new(Mix { fixed: [self.first, self.own], learned })), ..Inner::default() })
    }

    fn uses_memory(&self) -> bool {
        true
    }
}

/// The name of V_1 in the pass's memory.
const FIRST: &str = "value_residual.first";

/// Mixes values with the first ones; the first it is given are those.
#[derive(Debug)]
struct Mix {
    fixed: [f64; 2],
    learned: Option<Tensor>, // [2]
}

impl InnerMap for Mix {
    fn map(&self, x: &Tensor, _input: &Tensor, pass: &mut Pass) -> Tensor {
        match (pass.recall(FIRST), &self.learned) {
            (None, _) => {
                pass.remember(FIRST, x.shallow_clone());
                x.shallow_clone()
            }
            (Some(first), Some(lambdas)) => x * lambdas.get(1) + first * lambdas.get(0),
            (Some(first), None) => x * self.fixed[1] + first * self.fixed[0],
        }
    }
}

/// The join of [`ValueResidual`]: plain.
#[derive(Debug)]
struct ValueJoin;

impl Join for ValueJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        branch.call(residual, pass)
    }
}
