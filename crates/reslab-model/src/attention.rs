//! Multi-head self-attention.
//!
//! Shapes: B batch, N tokens, D width, H heads.

use reslab_residual::{Inner, LINEAR_STD, Pass, Site, Strategy, Weight};
use reslab_torch::{Init, Scope, ScopeError};
use tch::{Kind, Tensor};

use crate::ModelConfig;
use crate::layers::Linear;

/// Attention behind its norm: qkv, scaled dot products, output projection.
#[derive(Debug)]
pub(crate) struct Attention {
    qkv: Linear, // D -> 3 D: queries, keys, values
    out: Linear, // D -> D
    inner: Inner,
    num_heads: i64,
}

impl Attention {
    pub fn new(
        scope: &Scope,
        config: &ModelConfig,
        strategy: &dyn Strategy,
        site: Site,
        inner: Inner,
    ) -> Result<Attention, ScopeError> {
        let width = config.width;
        let gains = [Weight::Query(site), Weight::Key(site), Weight::Value(site)].map(|w| strategy.init_gain(w));
        let out = strategy.init_gain(Weight::Out(site));
        Ok(Attention {
            qkv: qkv(&scope.child("qkv"), width, gains, config.qkv_bias)?,
            out: Linear::new(&scope.child("out"), width, width, out)?,
            inner,
            num_heads: config.num_heads,
        })
    }

    /// h: [B, N, D] -> [B, N, D]
    pub fn forward(&self, h: &Tensor, pass: &mut Pass) -> Tensor {
        let (b, n, d) = h.size3().expect("attention reads [B, N, D]");
        let mut qkv = self.qkv.forward(h); // [B, N, 3 D]
        let maps = [&self.inner.queries, &self.inner.keys, &self.inner.values];
        if maps.iter().any(|map| map.is_some()) {
            let mut parts = qkv.view([b, n, 3, self.num_heads, d / self.num_heads]).unbind(2); // 3 x [B, N, H, D/H]
            for (part, map) in parts.iter_mut().zip(maps) {
                if let Some(map) = map {
                    *part = map.map(&part.transpose(1, 2), h, pass).transpose(1, 2);
                }
            }
            qkv = Tensor::stack(&parts, 2).view([b, n, 3 * d]);
        }
        pass.record_attention(|| logits(&qkv, self.num_heads));
        let mut attended = reslab_torch::attention(&qkv, self.num_heads); // [B, N, D]
        if let Some(map) = &self.inner.attended {
            attended = map.map(&attended, h, pass);
        }
        self.out.forward(&attended)
    }
}

/// What the softmax of attention sees: qkv [B, N, 3 D] -> q k^T / sqrt(D/H), [B, H, N, N]
fn logits(qkv: &Tensor, num_heads: i64) -> Tensor {
    let (b, n, width) = qkv.size3().expect("queries, keys and values stand side by side");
    let per_head = width / 3 / num_heads;
    let parts = qkv.view([b, n, 3, num_heads, per_head]).unbind(2);
    let [q, k] = [0, 1].map(|part: usize| parts[part].transpose(1, 2).to_kind(Kind::Float)); // [B, H, N, D/H]
    q.matmul(&k.transpose(-2, -1)) / (per_head as f64).sqrt()
}

/// The fused projection `[3 D, D]`. It is one parameter, drawn at once; gains that differ scale its thirds afterwards.
fn qkv(scope: &Scope, width: i64, gains: [f64; 3], bias: bool) -> Result<Linear, ScopeError> {
    let bias = bias.then_some(Init::Constant(0.0));
    let equal = gains.iter().all(|g| *g == gains[0]);
    let init = Init::TruncNormal { std: LINEAR_STD, gain: if equal { gains[0] } else { 1.0 } };
    let linear = Linear::with(scope, &[3 * width, width], init, bias)?;
    // A counting scope's tensors are one number expanded: they can't be written, and need not be.
    if !equal && linear.weight().is_contiguous() {
        tch::no_grad(|| {
            for (third, gain) in gains.into_iter().enumerate() {
                let _ = linear.weight().narrow(0, third as i64 * width, width).g_mul_scalar_(gain);
            }
        });
    }
    Ok(linear)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    #[test]
    fn the_logits_that_a_probe_sees_are_those_of_the_attention() {
        tch::manual_seed(1);
        let (b, n, heads, d) = (2, 7, 3, 24);
        let qkv = Tensor::randn([b, n, 3 * d], (Kind::Float, Device::Cpu));
        let v = qkv.view([b, n, 3, heads, d / heads]).unbind(2)[2].transpose(1, 2); // [B, H, N, D/H]
        let attended = reslab_torch::attention(&qkv, heads);
        let by = |logits: Tensor| logits.softmax(-1, Kind::Float).matmul(&v).transpose(1, 2).reshape([b, n, d]);
        let off = |found: &Tensor| (found - &attended).abs().max().double_value(&[]);
        assert!(off(&by(logits(&qkv, heads))) < 1e-5);
        assert!(off(&by(logits(&qkv, heads) * 1.01)) > 1e-4, "control: another scale is seen");
    }
}
