//! mHC: hyper-connections whose mixing matrix is doubly stochastic.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use crate::streams::{Copies, mix, split};
use crate::{Branch, DropRule, Join, Norm, Pass, Site, Strategy, StrategyError, Stream, Variant};

/// Added to the mean square in the norm.
const NORM_EPS: f64 = 1e-6;

/// mHC, manifold-constrained hyper-connections: n streams X; `X <- H_res X + H_post f(H_pre X)`, with weights per token
/// from `l = scale * W RMSNorm(vec X) + base`: `H_pre = sigmoid(l_pre)`, `H_post = 2 sigmoid(l_post)`,
/// `H_res = Sinkhorn(exp(l_res))`: columns, then rows, are divided by their sums, again and again. Row i of H_res holds the
/// shares of all streams in stream i.
///
/// Source: Xie et al. 2025, arXiv:2512.24880, eq. (7) to (9). The definition is pinned to the paper's; codes differ: Hugging
/// Face's DeepSeek-V4 has had sigmoid or softmax for exp, and rows first; lucidrains' code norms each stream alone, shares
/// one W among them and starts at H_post = 2 sigmoid(1) = 1.46. The paper gives `scale` and the iterations, but no `base`;
/// ours starts as the plain network. Streams open as copies and close as their sum. No decay on `base` and `scale`.
///
/// Shapes: X `[B, N, n, D]`, beside each other in the stream, S = n D. Per site: W `[2 n + n n, n D]` (rows: l_pre, l_post,
/// l_res), `base` `[2 n + n n]`, `scale` `[3]`.
///
/// At step 0 W = 0; H_post is all ones; H_res is `(1 - mixing) I + mixing / n`, doubly stochastic as it is; H_pre gives
/// stream `l mod n` (site l) `(n + 1) / (2 n)` and the others equal shares of the rest, so that the streams can part. All
/// of them are then the plain residual stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mhc {
    /// Number n of streams, at least 2; the paper takes 4.
    pub streams: i64,
    /// Rounds of Sinkhorn's normalization; the paper takes 20.
    pub iterations: i64,
    /// The dynamic part's scale at step 0, not 0; the paper takes .01.
    pub scale: f64,
    /// Share of an even mix in H_res at step 0, above 0 and at most 1; lucidrains' code starts at .7 for 4 streams.
    pub mixing: f64,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "mhc",
    summary: "several streams, mixed by doubly stochastic matrices before and after each branch",
    equation: "X <- H_res X + H_post f(H_pre X), H_res = Sinkhorn(exp(l)), H_pre = sigmoid(l), H_post = 2 sigmoid(l)",
    source: "Xie et al. 2025 (mHC), arXiv:2512.24880, eq. (7) to (9)",
    example: "kind = \"mhc\"\nstreams = 4\niterations = 20\nscale = 0.01\nmixing = 0.1\n",
    parameters: "2*24*4*D + 2*24 + 2*3",
    keys: reslab_config::keys::<Mhc>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: Mhc = parse_table("residual", table)?;
    let Mhc { streams, iterations: rounds, scale, mixing } = config;
    require((2..=64).contains(&streams), "residual.streams", || format!("must be from 2 to 64, but is {streams}"))?;
    require((1..=1000).contains(&rounds), "residual.iterations", || format!("must be 1 to 1000, but is {rounds}"))?;
    let moves = scale.is_finite() && scale != 0.0;
    require(moves, "residual.scale", || format!("must be finite, and not 0, where W never moves, but is {scale}"))?;
    require(mixing > 0.0 && mixing <= 1.0, "residual.mixing", || {
        format!("must be above 0 and at most 1, but is {mixing}")
    })?;
    Ok(Box::new(config))
}

impl Mhc {
    /// `base` at step 0: the logits of what the doc says.
    fn base(&self, site: Site) -> Vec<f64> {
        let (n, of, first) = (self.streams, self.streams as f64, site.index() as i64 % self.streams);
        let read = |stream: i64| if stream == first { (of + 1.0) / (2.0 * of) } else { 0.5 / of };
        let logit = |share: f64| (share / (1.0 - share)).ln();
        let kept = |row: i64, column: i64| if row == column { 1.0 - self.mixing } else { 0.0 } + self.mixing / of;
        let pre = (0..n).map(|stream| logit(read(stream)));
        let res = (0..n).flat_map(|row| (0..n).map(move |column| kept(row, column).ln()));
        pre.chain((0..n).map(|_| 0.0)).chain(res).collect()
    }
}

impl Strategy for Mhc {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Both, Norm::None]
    }

    fn stream(&self, _scope: &Scope, width: i64) -> Result<Box<dyn Stream>, StrategyError> {
        Ok(Box::new(Copies { count: self.streams, width }))
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let (n, rows) = (self.streams, self.streams * (self.streams + 2));
        Ok(Box::new(MhcJoin {
            n,
            iterations: self.iterations,
            w: scope.parameter("w", &[rows, n * site.width], Init::Constant(0.0), Group::Decay)?,
            base: scope.parameter("base", &[rows], Init::Values(self.base(site)), Group::NoDecay)?,
            scale: scope.parameter("scale", &[3], Init::Constant(self.scale), Group::NoDecay)?,
        }))
    }
}

/// The join of [`Mhc`].
#[derive(Debug)]
struct MhcJoin {
    n: i64,
    iterations: i64,
    w: Tensor,     // [2 n + n n, n D]
    base: Tensor,  // [2 n + n n]
    scale: Tensor, // [3]
}

impl MhcJoin {
    /// H_pre above H_res `[B, N, 1 + n, n]`, and H_post `[B, N, n, 1]`.
    fn weights(&self, residual: &Tensor) -> (Tensor, Tensor) {
        let (n, kind) = (self.n, residual.kind());
        let (b, tokens, s) = residual.size3().expect("a stream is [B, N, S]");
        let raw = residual.rms_norm([s], None::<Tensor>, NORM_EPS).linear(&self.w, None::<Tensor>).to_kind(kind);
        let scales = [n, n, n * n].into_iter().zip(0..).map(|(size, i)| self.scale.get(i).expand([size], false));
        let logits = self.base.addcmul(&raw, &Tensor::cat(&scales.collect::<Vec<_>>(), 0)); // [B, N, 2 n + n n]
        let pre = logits.narrow(2, 0, n).sigmoid().unsqueeze(2);
        let post = logits.narrow(2, n, n).sigmoid().unsqueeze(3) * 2.0;
        let res = sinkhorn(&logits.narrow(2, 2 * n, n * n).reshape([b, tokens, n, n]), self.iterations);
        (Tensor::cat(&[pre, res], 2), post)
    }
}

/// Sinkhorn's normalization of `exp(logits)`, columns before rows, in logarithms: `[.., n, n]`.
pub fn sinkhorn(logits: &Tensor, iterations: i64) -> Tensor {
    let normed = |logits: Tensor, dim: i64| logits.log_softmax(dim, None::<Kind>);
    (0..iterations).fold(logits.shallow_clone(), |logits, _| normed(normed(logits, -2), -1)).exp()
}

impl Join for MhcJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        self.forward(residual, branch, pass) - residual
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let (read, written) = self.weights(residual);
        let mixed = mix(&read, &split(residual, self.n)); // [B, N, 1 + n, D]
        let output = branch.call(&mixed.select(2, 0), pass).unsqueeze(2); // [B, N, 1, D]
        mixed.narrow(2, 1, self.n).addcmul(&output, &written).view(residual.size().as_slice())
    }

    fn drop_rule(&self) -> DropRule {
        DropRule::Branch
    }
}
