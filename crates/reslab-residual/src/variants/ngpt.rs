//! nGPT: the stream moves on a sphere.
//!
//! Shapes: B batch, N tokens, D width, H heads, M hidden width of the MLP.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Parameter, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use crate::{
    Branch, BranchKind, DropRule, Gamma, Inner, InnerMap, Join, Network, Norm, OptimScale, Pass, Site, Strategy,
    StrategyError, Stream, Variant,
};

/// nGPT: `y = unit(x + |gamma| * (unit(f(x)) - x))`, where unit(x) = x / norm(x) per token and x is of norm 1; queries and
/// keys are `s_qk * unit(q)` and `s_qk * unit(k)` per head with logits times sqrt(D/H), the MLP's layer before GELU times
/// `s_u * sqrt(D)`; no other norms; all matrices keep rows or columns of norm 1, those that lie in the stream's space.
///
/// Source: Loshchilov et al. 2024, arXiv:2410.01131, sections 2.1 to 2.6; compared with the authors' `model.py` and
/// `train.py` (`normalize_matrices`). gamma is the paper's alpha, and every scale is stored as value / (sqrt(D) * init),
/// but s_u as value / init, as in their code: so Adam's steps have the size that they have there.
/// Differs: a ViT's trunk. GELU instead of SwiGLU, so one s_u; biases in its linear layers; no rotary positions. Tokens
/// (patches plus positions) are brought to the sphere by division, the embedding is not normalised. The classifier's
/// rows are; the paper's scale per class is one scale for all logits, applied to the last stream. With mean pooling
/// the pooled token is inside the sphere. Weight decay is 0 on the normalised matrices, as there; no warm-up is up to
/// `optim.warmup_steps`. Their bfloat16 parameters are float32 here.
///
/// Shapes: x and y `[B, N, D]`, gamma `[D]`, s_qk `[D]`, s_u `[M]`, the logits' scale `[]`; 3D + M parameters per block.
///
/// At step 0 each branch turns the stream by a share `init` of the way to its own direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ngpt {
    /// Every gamma at step 0, above 0. The authors take .05; about 1 / (number of blocks).
    pub init: f64,
    /// Every s_qk at step 0, above 0. The paper takes 1.
    pub query_key_init: f64,
    /// Every s_u at step 0, above 0. The paper takes 1.
    pub mlp_init: f64,
    /// The logits' scale at step 0, above 0. The paper takes 1, with a vocabulary of some 50,000 words.
    pub logit_init: f64,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "ngpt",
    summary: "the stream stays on the unit sphere, and so do the rows or columns of every matrix",
    equation: "y = unit(x + |gamma| * (unit(f(x)) - x)), unit(x) = x / norm(x), gamma [D] = init at step 0; q, k = s_qk * unit(q), s_qk * unit(k)",
    source: "Loshchilov et al. 2024 (nGPT), arXiv:2410.01131",
    example: "kind = \"ngpt\"\ninit = 0.05\nquery_key_init = 1.0\nmlp_init = 1.0\nlogit_init = 1.0\n",
    parameters: "3*D + M",
    keys: reslab_config::keys::<Ngpt>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: Ngpt = parse_table("residual", table)?;
    for (value, key) in [
        (config.init, "residual.init"),
        (config.query_key_init, "residual.query_key_init"),
        (config.mlp_init, "residual.mlp_init"),
        (config.logit_init, "residual.logit_init"),
    ] {
        require(value.is_finite() && value > 0.0, key, || format!("must be above 0 and finite, but is {value}"))?;
    }
    Ok(Box::new(config))
}

/// Smaller norms are taken for this one: a branch of zeros stays one.
const SMALLEST: f64 = 1e-12;

/// x divided by its norms along one dimension.
fn unit(x: &Tensor, dim: i64) -> Tensor {
    x / x.norm_scalaropt_dim(2, [dim].as_slice(), true).clamp_min(SMALLEST)
}

/// The dimension of a matrix along which its vectors of the stream's space lie, or none where it is left alone.
fn normalised(name: &str) -> Option<i64> {
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    match () {
        () if name == "head.weight" || ends(&[".qkv.weight", ".fc1.weight"]) => Some(1),
        () if ends(&[".out.weight", ".fc2.weight"]) => Some(0),
        () => None,
    }
}

impl Strategy for Ngpt {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::None]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let gamma = Scale::new(scope, "gamma", &[site.width], (self.init, site.width, Group::Gamma))?;
        Ok(Box::new(NgptJoin { gamma, init: self.init }))
    }

    fn stream(&self, scope: &Scope, width: i64) -> Result<Box<dyn Stream>, StrategyError> {
        let scale = Scale::new(scope, "scale", &[], (self.logit_init, width, Group::NoDecay))?;
        Ok(Box::new(Sphere { scale, width }))
    }

    fn inner(&self, scope: &Scope, site: Site) -> Result<Inner, StrategyError> {
        if site.kind == BranchKind::Mlp {
            let mut scale = Scale::new(scope, "s_u", &[site.hidden], (self.mlp_init, 1, Group::NoDecay))?;
            scale.factor *= (site.width as f64).sqrt();
            return Ok(Inner { preactivation: Some(Box::new(scale)), ..Inner::default() });
        }
        let per_head = site.width / site.num_heads;
        let shape = [site.num_heads, 1, per_head];
        let scale = Scale::new(scope, "s_qk", &shape, (self.query_key_init, site.width, Group::NoDecay))?;
        // Attention divides logits by sqrt(D/H), nGPT multiplies them: the queries make up for both.
        let queries = Scale { stored: scale.stored.shallow_clone(), factor: scale.factor * per_head as f64 };
        Ok(Inner { queries: Some(Box::new(Turned(queries))), keys: Some(Box::new(Turned(scale))), ..Inner::default() })
    }

    fn optim_scale(&self, parameter: &Parameter, _depth: usize) -> OptimScale {
        let weight_decay = if normalised(&parameter.name).is_some() { 0.0 } else { 1.0 };
        OptimScale { weight_decay, ..OptimScale::ONE }
    }

    fn calibrate(&self, _network: &dyn Network, parameters: &[Parameter]) -> Result<(), StrategyError> {
        self.constrain(parameters);
        Ok(())
    }

    fn constrain(&self, parameters: &[Parameter]) {
        for parameter in parameters {
            if let Some(dim) = normalised(&parameter.name) {
                parameter.tensor.shallow_clone().copy_(&unit(&parameter.tensor, dim));
            }
        }
    }
}

/// A learned scale, stored so that Adam's steps have the size that suits it: its value is `stored * factor`.
#[derive(Debug)]
struct Scale {
    stored: Tensor,
    factor: f64,
}

impl Scale {
    /// It starts at `init`, stored as 1 / sqrt(width).
    fn new(
        scope: &Scope,
        name: &str,
        shape: &[i64],
        (init, width, group): (f64, i64, Group),
    ) -> Result<Scale, StrategyError> {
        let root = (width as f64).sqrt();
        Ok(Scale { stored: scope.parameter(name, shape, Init::Constant(1.0 / root), group)?, factor: init * root })
    }

    fn value(&self) -> Tensor {
        &self.stored * self.factor
    }
}

impl InnerMap for Scale {
    fn map(&self, x: &Tensor, _input: &Tensor, _pass: &mut Pass) -> Tensor {
        x * self.value().to_kind(x.kind())
    }
}

/// Queries or keys: of norm 1 in every head, then scaled.
#[derive(Debug)]
struct Turned(Scale);

impl InnerMap for Turned {
    fn map(&self, x: &Tensor, _input: &Tensor, _pass: &mut Pass) -> Tensor {
        let exact = if x.kind() == Kind::BFloat16 { x.to_kind(Kind::Float) } else { x.shallow_clone() };
        (unit(&exact, -1) * self.0.value()).to_kind(x.kind())
    }
}

/// The stream: opened onto the sphere, closed with the logits' scale.
#[derive(Debug)]
struct Sphere {
    scale: Scale,
    width: i64,
}

impl Stream for Sphere {
    fn width(&self) -> i64 {
        self.width
    }
    fn open(&self, x: &Tensor, _pass: &mut Pass) -> Tensor {
        unit(x, -1)
    }
    fn close(&self, stream: &Tensor, _pass: &mut Pass) -> Tensor {
        stream * self.scale.value()
    }
}

/// The join of [`Ngpt`].
#[derive(Debug)]
struct NgptJoin {
    gamma: Scale, // [D]
    init: f64,
}

impl Join for NgptJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        self.forward(residual, branch, pass) - residual
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let direction = unit(&branch.call(residual, pass).to_kind(residual.kind()), -1);
        let joined = unit(&residual.addcmul(&(direction - residual), &self.gamma.value().abs()), -1);
        pass.record_update(|| &joined - residual);
        joined
    }

    fn drop_rule(&self) -> DropRule {
        DropRule::Refused("branch and sum are brought to norm 1, so neither a mask nor a factor keeps the mean")
    }

    fn gamma(&self) -> Option<Gamma> {
        Some(Gamma { value: self.gamma.value(), init: self.init })
    }
}
