//! What a pass over a fixed probe batch looks at beside the joins (docs/records.md, probes.csv): attention, how alike the
//! tokens of an image are, and how the stream grows.
//!
//! Shapes: B batch, N tokens, S width of the stream, H heads, L blocks.

use tch::{Device, Kind, Tensor};

/// The figures of one block on a probe batch. `None`: not defined there.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BlockFigures {
    /// Largest q.k / sqrt(head width) over images, heads and pairs of tokens.
    pub attention_logit_max: Option<f64>,
    /// Mean over images, heads and queries of -sum p ln p / ln N: 1 where attention is even, 0 where it is on one token.
    pub attention_entropy: Option<f64>,
    /// Mean cosine between different tokens of an image, behind the block.
    pub token_similarity: Option<f64>,
    /// sqrt(mean x^2) of the residual entering the attention join, and the MLP join.
    pub residual_rms: [Option<f64>; 2],
}

/// What a pass left on the device: one number each.
#[derive(Debug, Default)]
pub struct Probe {
    images: i64,
    num_tokens: i64,
    attention: Vec<[Tensor; 2]>, // per block: largest logit, entropy / ln N
    tokens: Vec<Tensor>,         // per block
    mean_squares: Vec<Tensor>,   // per join
}

impl Probe {
    /// logits: [B, H, N, N], before the softmax.
    pub(crate) fn attention(&mut self, logits: &Tensor) {
        let logits = logits.to_kind(Kind::Float);
        let log_p = logits.log_softmax(-1, Kind::Float);
        let tokens = logits.size()[3] as f64;
        // 0 ln 0 = 0: a probability that is zero in float32 has a finite logarithm, or stands beside a logit that is not.
        let entropy = -(log_p.exp() * &log_p).sum_dim_intlist([-1i64].as_slice(), false, Kind::Float);
        self.attention.push([logits.max(), entropy.mean(Kind::Float) / tokens.ln()]);
    }

    /// residual: [B, N, S] behind a block.
    pub(crate) fn tokens(&mut self, residual: &Tensor) {
        let x = residual.to_kind(Kind::Float);
        let tokens = x.size()[1] as f64;
        let unit = &x / x.linalg_norm(2, [-1i64].as_slice(), true, None).clamp_min(f64::MIN_POSITIVE.sqrt());
        // The sum over all pairs is the square of the sum; a token with itself gives 1, or 0 where it is zero.
        let all = unit.sum_dim_intlist([1i64].as_slice(), false, Kind::Float).square().sum(Kind::Float);
        let own = unit.square().sum(Kind::Float);
        (self.images, self.num_tokens) = (x.size()[0], x.size()[1]);
        self.tokens.push((all - own) / (self.images as f64 * tokens * (tokens - 1.0)));
    }

    /// residual: [B, N, S] that enters a join.
    pub(crate) fn residual(&mut self, residual: &Tensor) {
        self.mean_squares.push(residual.to_kind(Kind::Float).square().mean(Kind::Float));
    }

    /// The figures of a batch that went through in several passes: largest logit, and means weighted by images; and
    /// ln(mean x^2) against ln(join), fitted by a line, whose slope says how the stream grows. One copy to the host per pass.
    pub fn figures(passes: &[Probe]) -> ProbeFigures {
        let images: f64 = passes.iter().map(|pass| pass.images as f64).sum();
        let rows: Vec<(f64, Vec<f64>)> =
            passes.iter().map(|pass| (pass.images as f64 / images, pass.values())).collect();
        let Some(first) = passes.first() else { return ProbeFigures::default() };
        let mean = |at: usize| rows.iter().map(|(share, values)| share * values[at]).sum::<f64>();
        let largest = |at: usize| rows.iter().map(|(_, values)| values[at]).fold(f64::NEG_INFINITY, largest_or_nan);
        let (attention, blocks) = (first.attention.len(), first.tokens.len());
        // A token alone has nothing to choose between and none to be like; and a join may leave its branch out.
        let (several, attends) = (first.num_tokens > 1, attention == blocks);
        let joins: Vec<f64> = (0..first.mean_squares.len()).map(|join| mean(2 * attention + blocks + join)).collect();
        let block = |index: usize| BlockFigures {
            attention_logit_max: attends.then(|| largest(2 * index)),
            attention_entropy: (attends && several).then(|| mean(2 * index + 1)),
            token_similarity: several.then(|| mean(2 * attention + index)),
            residual_rms: [2 * index, 2 * index + 1].map(|join| joins.get(join).map(|square| square.sqrt())),
        };
        ProbeFigures { blocks: (0..blocks).map(block).collect(), stream_growth: slope(&joins) }
    }

    fn values(&self) -> Vec<f64> {
        let all: Vec<&Tensor> = self.attention.iter().flatten().chain(&self.tokens).chain(&self.mean_squares).collect();
        if all.is_empty() {
            return Vec::new();
        }
        let stacked = Tensor::stack(&all, 0).to_device(Device::Cpu).to_kind(Kind::Double);
        Vec::try_from(stacked).expect("a vector of float64")
    }
}

/// The figures of a network on a probe batch.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProbeFigures {
    /// In network order.
    pub blocks: Vec<BlockFigures>,
    /// Slope of ln(mean square of the residual entering a join) against ln(number of the join, from 1).
    pub stream_growth: Option<f64>,
}

/// NaN is largest: a logit that is no number must not be lost.
fn largest_or_nan(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// Least squares of ln(y) against ln(1), ln(2), ...; `None` for fewer than two points.
fn slope(y: &[f64]) -> Option<f64> {
    let n = y.len() as f64;
    let points: Vec<(f64, f64)> = y.iter().enumerate().map(|(i, y)| ((i as f64 + 1.0).ln(), y.ln())).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x_mean, y_mean) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - x_mean).powi(2)).sum();
    (points.len() > 1).then(|| points.iter().map(|p| (p.0 - x_mean) * (p.1 - y_mean)).sum::<f64>() / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, expected: f64) {
        let found = found.expect("it is defined");
        assert!((found - expected).abs() < 1e-6, "{found} instead of {expected}");
    }

    /// Two heads of two tokens: one even, one on the first token; the stream's tokens at 90 and at 0 degrees.
    fn probe() -> Probe {
        let mut probe = Probe::default();
        let logits = Tensor::from_slice(&[1f32, 1.0, -2.0, -2.0, 200.0, 0.0, 200.0, 0.0]).view([1, 2, 2, 2]);
        probe.residual(&Tensor::from_slice(&[3f32, 0.0, 0.0, 1.0]).view([1, 2, 2]));
        probe.attention(&logits);
        probe.residual(&Tensor::from_slice(&[6f32, 0.0, 0.0, 2.0]).view([1, 2, 2]));
        probe.tokens(&Tensor::from_slice(&[6f32, 0.0, 0.0, 2.0]).view([1, 2, 2]));
        probe
    }

    #[test]
    fn the_figures_are_those_worked_out_by_hand() {
        let figures = Probe::figures(&[probe()]);
        let block = figures.blocks[0];
        close(block.attention_logit_max, 200.0);
        close(block.attention_entropy, 0.5); // ln 2 / ln 2 in one head, 0 in the other
        close(block.token_similarity, 0.0);
        close(block.residual_rms[0], 2.5f64.sqrt());
        close(block.residual_rms[1], 10f64.sqrt());
        close(figures.stream_growth, 4f64.ln() / 2f64.ln());
        let mut alike = probe();
        alike.tokens.clear();
        alike.tokens(&Tensor::from_slice(&[1f32, 1.0, 2.0, 2.0]).view([1, 2, 2]));
        close(Probe::figures(&[alike]).blocks[0].token_similarity, 1.0);
    }

    #[test]
    fn passes_are_weighted_by_their_images_and_no_number_is_lost() {
        let mut other = Probe::default();
        let logits = Tensor::from_slice(&[0f32, 0.0, 0.0, 0.0]).view([1, 1, 2, 2]).repeat([3, 1, 1, 1]);
        let x = Tensor::from_slice(&[1f32, 1.0, 1.0, 1.0]).view([1, 2, 2]).repeat([3, 1, 1]);
        other.residual(&x);
        other.attention(&logits);
        other.residual(&x);
        other.tokens(&x);
        let block = Probe::figures(&[probe(), other]).blocks[0];
        close(block.attention_logit_max, 200.0);
        close(block.attention_entropy, 0.25 * 0.5 + 0.75 * 1.0);
        close(block.token_similarity, 0.75);
        let mut broken = probe();
        broken.attention.clear();
        broken.attention(&Tensor::full([1, 1, 2, 2], f64::NAN, (Kind::Float, Device::Cpu)));
        assert!(Probe::figures(&[broken, probe()]).blocks[0].attention_logit_max.unwrap().is_nan());
    }

    #[test]
    fn a_single_token_has_no_entropy_and_no_other_token() {
        let mut probe = Probe::default();
        let x = Tensor::from_slice(&[2f32, 0.0]).view([1, 1, 2]);
        probe.residual(&x);
        probe.attention(&Tensor::zeros([1, 1, 1, 1], (Kind::Float, Device::Cpu)));
        probe.tokens(&x);
        let figures = Probe::figures(&[probe]);
        let block = figures.blocks[0];
        assert_eq!((block.attention_entropy, block.token_similarity, figures.stream_growth), (None, None, None));
        close(block.attention_logit_max, 0.0);
        assert_eq!(Probe::figures(&[]), ProbeFigures::default());
    }
}
