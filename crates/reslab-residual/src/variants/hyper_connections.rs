//! Hyper-connections: several streams, mixed before and after every branch.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::streams::{Copies, mix, split};
use crate::{Branch, DropRule, Join, Norm, Pass, Site, Strategy, StrategyError, Stream, Variant};

/// Added to the mean square in the RMSNorm of the streams.
const NORM_EPS: f64 = 1e-6;

/// Hyper-connections: n streams X; the branch reads `h = A_m X`, then `X <- A_r X + b f(h)`, with weights per token
/// `[A_m; A_r; b] = static + scale * tanh(W RMSNorm(X))`, or only the static part.
///
/// Source: Zhu et al. 2024, arXiv:2409.19606, eq. (2) to (5) and (10) to (13), algorithm 2; lucidrains' hyper-connections
/// at `hyper_connections.py`. As that code: RMSNorm (with a weight) where the paper has LayerNorm, the streams open as
/// copies of the embedding and close as their sum, the branch of site l reads stream `l mod n` at first. Differs from it:
/// eps 1e-6 under the norm's root. As the paper, no weight decay on the static part.
///
/// Shapes: X `[B, N, n, D]`, beside each other in the stream, S = n D. Per site: `static` `[n + 2, n]` (rows: A_m, the n
/// of A_r, b), and if dynamic W `[n + 2, D]`, the norm's weight `[D]` and `scale` `[2]` (of A, of b).
///
/// At step 0 W = 0, A_m is one unit vector, A_r the identity and b all ones: every stream is the plain residual stream, and
/// their sum n times it, which the final norm takes out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HyperConnections {
    /// Number n of streams, at least 1; the paper takes 4.
    pub streams: i64,
    /// Whether the weights also depend on the token.
    pub dynamic: bool,
    /// The dynamic part's scale at step 0, not 0; the paper takes .01. Must be 0 where `dynamic` is false.
    pub scale: f64,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "hyper_connections",
    summary: "several streams, mixed by learned weights before and after each branch",
    equation: "h = A_m X, X <- A_r X + b f(h), [A_m; A_r; b] = static + scale * tanh(W RMSNorm(X)); at step 0 W = 0",
    source: "Zhu et al. 2024, arXiv:2409.19606, eq. (2) to (5), (10) to (13); lucidrains/hyper-connections",
    example: "kind = \"hyper_connections\"\nstreams = 4\ndynamic = true\nscale = 0.01\n",
    parameters: "2*6*4 + 2*6*D + 2*D + 2*2",
    keys: reslab_config::keys::<HyperConnections>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: HyperConnections = parse_table("residual", table)?;
    let HyperConnections { streams, dynamic, scale } = config;
    require((1..=64).contains(&streams), "residual.streams", || format!("must be from 1 to 64, but is {streams}"))?;
    require(scale.is_finite() && (scale != 0.0) == dynamic, "residual.scale", || match dynamic {
        true => format!("must be finite and not 0, where nothing dynamic would train, but is {scale}"),
        false => format!("must be 0 with dynamic = false, where it has no meaning, but is {scale}"),
    })?;
    Ok(Box::new(config))
}

impl Strategy for HyperConnections {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Both, Norm::None]
    }

    fn stream(&self, _scope: &Scope, width: i64) -> Result<Box<dyn Stream>, StrategyError> {
        Ok(Box::new(Copies { count: self.streams, width }))
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let n = self.streams;
        let first = site.index() as i64 % n;
        let weight = |row: i64, column: i64| row == n + 1 || column == if row == 0 { first } else { row - 1 };
        let rows = (0..n + 2).flat_map(|row| (0..n).map(move |column| f64::from(weight(row, column))));
        let dynamic = if self.dynamic {
            Some(Dynamic {
                w: scope.parameter("dynamic", &[n + 2, site.width], Init::Constant(0.0), Group::Decay)?,
                norm: scope.child("norm").parameter("weight", &[site.width], Init::Constant(1.0), Group::NoDecay)?,
                scale: scope.parameter("scale", &[2], Init::Constant(self.scale), Group::NoDecay)?,
            })
        } else {
            None
        };
        let fixed = scope.parameter("static", &[n + 2, n], Init::Values(rows.collect()), Group::NoDecay)?;
        Ok(Box::new(HyperJoin { n, fixed, dynamic }))
    }
}

/// The join of [`HyperConnections`].
#[derive(Debug)]
struct HyperJoin {
    n: i64,
    fixed: Tensor, // [n + 2, n]
    dynamic: Option<Dynamic>,
}

#[derive(Debug)]
struct Dynamic {
    w: Tensor,     // [n + 2, D]
    norm: Tensor,  // [D]
    scale: Tensor, // [2]
}

impl HyperJoin {
    /// copies `[B, N, n, D]` -> `[B, N, n + 2, n]`, or `[n + 2, n]`: rows of A_m, A_r and b.
    fn weights(&self, copies: &Tensor) -> Tensor {
        let Some(Dynamic { w, norm, scale }) = &self.dynamic else { return self.fixed.shallow_clone() };
        let logits = copies.rms_norm(norm.size(), Some(norm), NORM_EPS).linear(w, None::<Tensor>); // [B, N, n, n + 2]
        let moved = logits.to_kind(copies.kind()).tanh().transpose(2, 3);
        let scales = Tensor::cat(&[scale.get(0).expand([self.n + 1], false), scale.narrow(0, 1, 1)], 0);
        self.fixed.addcmul(&moved, &scales.unsqueeze(1))
    }
}

impl Join for HyperJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        self.forward(residual, branch, pass) - residual
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let copies = split(residual, self.n); // [B, N, n, D]
        let weights = self.weights(&copies);
        let mixed = mix(&weights.narrow(-2, 0, self.n + 1), &copies); // [B, N, n + 1, D]
        let output = branch.call(&mixed.select(2, 0), pass).unsqueeze(2); // [B, N, 1, D]
        let written = weights.select(-2, self.n + 1).unsqueeze(-1); // [.., n, 1]
        mixed.narrow(2, 1, self.n).addcmul(&output, &written).view(residual.size().as_slice())
    }

    fn drop_rule(&self) -> DropRule {
        DropRule::Branch
    }
}
