//! Deep delta learning: along the branch's direction, the stream is moved towards a learned value.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use crate::{Branch, Gate, Join, Norm, Pass, Site, Strategy, StrategyError, Variant};

/// The eps of k: f = 0 gives k = 0, and |k| = 1 where |f| is far above it.
const KEY_EPS: f64 = 1e-5;

/// Deep delta learning with scalar values: `y = x + beta k (v - k . x)`, where `k = f(x) / |f(x)|` is a direction,
/// `beta = 2 sigmoid(w_b . norm(x) + b_b)` a step and `v = value_scale * sigmoid(w_v . x + b_v)` the value to reach along it.
///
/// Source: Zhang et al. 2026, arXiv:2601.00417, for d_v = 1, as in yifanzhang-pro/deep-delta-learning at 2b55f25,
/// `DDL-vdim1-gpt-mha-rope.py`: `|f|` is `sqrt(sum f^2 + 1e-10)`, norm is the branch's own (LN), both matrices start with
/// std `.5 / sqrt(D)`. Differs: b_v starts at 0 (there uniform within `1 / sqrt(D)`), and the draw is cut at 2.
///
/// Shapes: x, f, k `[B, N, D]`; beta and v `[B, N, 1]`; both w `[1, D]`, both b `[1]`, so 4D + 4 parameters per block.
///
/// At step 0 beta is near `initial_beta` and v near `value_scale / 2`: the step has a length of about
/// `initial_beta * value_scale / 2` whatever the size of f, since k is a unit vector. Drop path scales it beyond beta's 2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeepDelta {
    /// beta at step 0 where `w_b . norm(x)` is 0, above 0 and below 2; the code's 0 is 2e-6.
    pub initial_beta: f64,
    /// Largest value v; the code takes 4.
    pub value_scale: f64,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "deep_delta",
    summary: "along the branch's direction, the stream is moved towards a learned value",
    equation: "y = x + beta k (v - k . x), k = f(x) / |f(x)|, beta = 2 sigmoid(w_b . LN(x) + b_b), v = c sigmoid(w_v . x + b_v)",
    source: "Zhang et al. 2026 (Deep Delta Learning), arXiv:2601.00417, d_v = 1 as in its code",
    example: "kind = \"deep_delta\"\ninitial_beta = 0.1\nvalue_scale = 4.0\n",
    parameters: "4*D + 4",
    keys: reslab_config::keys::<DeepDelta>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: DeepDelta = parse_table("residual", table)?;
    let DeepDelta { initial_beta: beta, value_scale: value } = config;
    let inside = beta > 0.0 && beta < 2.0;
    require(inside, "residual.initial_beta", || format!("must be above 0 and below 2, but is {beta}"))?;
    let fits = value.is_finite() && value != 0.0;
    require(fits, "residual.value_scale", || format!("must be finite and not 0, but is {value}"))?;
    Ok(Box::new(config))
}

impl Strategy for DeepDelta {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Both, Norm::None]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let d = site.width;
        let draw = || Init::TruncNormal { std: 0.5 / (d as f64).sqrt(), gain: 1.0 };
        let share = self.initial_beta / 2.0;
        let linear = |name: &str, bias: f64| -> Result<[Tensor; 2], StrategyError> {
            let scope = scope.child(name);
            let weight = scope.parameter("weight", &[1, d], draw(), Group::Decay)?;
            Ok([weight, scope.parameter("bias", &[1], Init::Constant(bias), Group::NoDecay)?])
        };
        let beta = linear("beta", (share / (1.0 - share)).ln())?;
        Ok(Box::new(DeltaJoin { beta, value: linear("value", 0.0)?, value_scale: self.value_scale }))
    }
}

/// The join of [`DeepDelta`].
#[derive(Debug)]
struct DeltaJoin {
    beta: [Tensor; 2],  // [1, D], [1]
    value: [Tensor; 2], // [1, D], [1]
    value_scale: f64,
}

impl Join for DeltaJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let kind = residual.kind();
        let sigmoid = |x: &Tensor, [weight, bias]: &[Tensor; 2]| x.linear(weight, Some(bias)).to_kind(kind).sigmoid();
        let normed = branch.norm(residual);
        let share = sigmoid(&normed, &self.beta); // [B, N, 1]
        let value = sigmoid(residual, &self.value) * self.value_scale;
        let output = branch.body(&normed, pass).to_kind(kind);
        let sum = |x: &Tensor| x.sum_dim_intlist([-1i64].as_slice(), true, None::<Kind>);
        let inverse = (sum(&output.square()) + KEY_EPS * KEY_EPS).rsqrt();
        let reached = sum(&(&output * residual)) * &inverse; // k . x
        let step = (value - reached) * inverse * &share * 2.0;
        pass.record_gate(|| Gate {
            share: share.shallow_clone(),
            bound: Tensor::full([], 2.0, (kind, share.device())),
        });
        output * step
    }
}
