//! Fixed ratio: an update of constant size relative to its residual.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_residual::{Branch, DropRule, Join, Norm, Pass, Site, Strategy, StrategyError, Variant};
use reslab_torch::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

/// Fixed ratio: `y = x + ratio * |x| / |f(x)| * f(x)` per token, where `|.|` is the 2-norm over the width.
///
/// Source: none; it is the control of the question whether a learned scale does more than to set the size of the updates. The
/// update ratio that CaiT (Touvron et al. 2021, arXiv:2103.17239) plots is here the same number in every layer and step.
///
/// Shapes: x, y and f(x) `[B, N, D]`. No parameters. The branch's own size has no effect at all, so its last matrix
/// only turns: its gradient is orthogonal to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FixedRatio {
    /// Size of every update over that of its residual.
    pub ratio: f64,
    /// Added to |f(x)|, against division by zero.
    pub eps: f64,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "fixed_ratio",
    summary: "every update has the same size relative to its residual",
    equation: "y = x + ratio * |x| / |f(x)| * f(x), |.| the 2-norm of a token",
    source: "this file; a control for learned scales",
    example: "kind = \"fixed_ratio\"\nratio = 0.1\neps = 1e-6\n",
    parameters: "0",
    keys: reslab_config::keys::<FixedRatio>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: FixedRatio = parse_table("residual", table)?;
    require(config.ratio.is_finite(), "residual.ratio", || format!("must be finite, but is {}", config.ratio))?;
    require(config.eps > 0.0, "residual.eps", || format!("must be above 0, but is {}", config.eps))?;
    Ok(Box::new(config))
}

impl Strategy for FixedRatio {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Both]
    }

    fn join(&self, _scope: &Scope, _site: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(self.clone()))
    }
}

impl Join for FixedRatio {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let output = branch.call(residual, pass);
        let size = |x: &Tensor| x.square().sum_dim_intlist([-1i64].as_slice(), true, None).sqrt(); // [B, N, 1]
        &output * (size(residual) * self.ratio / (size(&output) + self.eps))
    }

    fn drop_rule(&self) -> DropRule {
        DropRule::Scaled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reslab_residual::Registry;
    use tch::{Device, Kind};

    struct Doubling;
    impl Branch for Doubling {
        fn norm(&self, x: &Tensor) -> Tensor {
            x.shallow_clone()
        }
        fn body(&self, h: &Tensor, _pass: &mut Pass) -> Tensor {
            h.flip([-1i64]) * 2.0
        }
    }

    #[test]
    fn an_update_has_the_same_size_relative_to_its_residual_whatever_the_branch_gives() {
        let registry = Registry::builtin().with(&VARIANT);
        registry.parse(&VARIANT.example.parse().unwrap()).unwrap();
        let join = FixedRatio { ratio: 0.1, eps: 1e-6 };
        let x = Tensor::arange(24, (Kind::Double, Device::Cpu)).view([2, 3, 4]) + 1.0;
        let update = join.update(&x, &Doubling, &mut Pass::eval());
        let size = |t: &Tensor| t.square().sum_dim_intlist([-1i64].as_slice(), false, None).sqrt();
        let off = (size(&update) / size(&x) - 0.1).abs().max().double_value(&[]);
        assert!(off < 1e-6, "{off}");
        assert!((size(&(&x * 2.0)) / size(&x) - 0.1).abs().max().double_value(&[]) > 1.0, "control: the branch itself");
    }
}
