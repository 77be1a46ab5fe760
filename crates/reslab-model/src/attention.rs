//! Multi-head self-attention.
//!
//! Shapes: B batch, N tokens, D width, H heads.

use reslab_config::ConfigError;
use reslab_residual::{Inner, LINEAR_STD, Pass, Site, Weight};
use reslab_torch::{Group, Init, Scope, ScopeError};
use tch::{Kind, Tensor};

use crate::block::{Body, Plan};
use crate::layers::Linear;
use crate::rope::Rope;
use crate::{ModelError, ModelKind, QkvBias};

/// Attention behind its norm: qkv, scaled dot products, output projection.
#[derive(Debug)]
pub(crate) struct Attention {
    qkv: Qkv,    // D -> 3 D: queries, keys, values
    out: Linear, // D -> D
    inner: Inner,
    rope: Option<Rope>,
    talking: Option<TalkingHeads>,
    num_heads: i64,
}

impl Attention {
    pub fn new(scope: &Scope, plan: &Plan, site: Site, inner: Inner) -> Result<Attention, ModelError> {
        let (config, strategy) = (plan.config, plan.strategy);
        let gains = [Weight::Query(site), Weight::Key(site), Weight::Value(site)].map(|w| strategy.init_gain(w));
        let out = strategy.init_gain(Weight::Out(site));
        let qkv = Qkv::new(&scope.child("qkv"), config.width, gains, config.qkv_bias)?;
        let out = Linear::new(&scope.child("out"), config.width, config.width, out)?;
        let talking = (config.kind == ModelKind::Cait).then(|| TalkingHeads::new(scope, config.num_heads, &inner));
        let (talking, rope) = (talking.transpose()?, plan.rope.clone());
        Ok(Attention { qkv, out, inner, rope, talking, num_heads: config.num_heads })
    }
}

impl Body for Attention {
    /// h: [B, N, D] -> [B, N, D]
    fn forward(&self, h: &Tensor, pass: &mut Pass) -> Tensor {
        let (b, n, d) = h.size3().expect("attention reads [B, N, D]");
        let mut qkv = self.qkv.forward(h); // [B, N, 3 D]
        if let Some(rope) = &self.rope {
            qkv = rope.turn(&qkv, self.num_heads);
        }
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
        let mut attended = match &self.talking {
            Some(talking) => talking.attend(&qkv, self.num_heads, pass),
            None => {
                pass.record_attention(|| logits(&qkv, self.num_heads));
                reslab_torch::attention(&qkv, self.num_heads)
            }
        }; // [B, N, D]
        if let Some(map) = &self.inner.attended {
            attended = map.map(&attended, h, pass);
        }
        self.out.forward(&attended)
    }
}

/// Queries, keys and values of every head: qkv [B, N, 3 D] -> 3 x [B, H, N, D/H]
fn heads(qkv: &Tensor, num_heads: i64) -> [Tensor; 3] {
    let parts = qkv.unflatten(-1, [3, num_heads, -1]);
    [0, 1, 2].map(|part| parts.select(2, part).transpose(1, 2))
}

/// What the softmax of attention sees: qkv [B, N, 3 D] -> q k^T / sqrt(D/H), [B, H, N, N]
fn logits(qkv: &Tensor, num_heads: i64) -> Tensor {
    let [q, k, _] = heads(qkv, num_heads);
    let [q, k] = [q, k].map(|part| part.to_kind(Kind::Float));
    let per_head = q.size()[3];
    q.matmul(&k.transpose(-2, -1)) / (per_head as f64).sqrt()
}

/// Refuses maps of single heads where heads are mixed, or where queries are of another token than keys.
pub(crate) fn refuse_head_maps(inner: &Inner) -> Result<(), ConfigError> {
    let maps = [&inner.queries, &inner.keys, &inner.values];
    reslab_config::require(maps.iter().all(|map| map.is_none()), "model.kind", || {
        "must not be \"cait\" with this strategy: it maps the queries, keys or values of every head, which is not defined \
         where talking heads mix them and where a class token asks alone"
            .to_owned()
    })
}

/// Linear maps over the heads, on the logits and on the weights. Source: Shazeer et al. 2020, arXiv:2003.02436; as in
/// CaiT, with biases.
#[derive(Debug)]
struct TalkingHeads {
    logits: Linear,  // H -> H
    weights: Linear, // H -> H
}

impl TalkingHeads {
    fn new(scope: &Scope, num_heads: i64, inner: &Inner) -> Result<TalkingHeads, ModelError> {
        refuse_head_maps(inner)?;
        let linear = |name: &str| Linear::new(&scope.child(name), num_heads, num_heads, 1.0);
        Ok(TalkingHeads { logits: linear("talking_logits")?, weights: linear("talking_weights")? })
    }

    /// qkv: [B, N, 3 D] -> [B, N, D]
    fn attend(&self, qkv: &Tensor, num_heads: i64, pass: &mut Pass) -> Tensor {
        let [q, k, v] = heads(qkv, num_heads);
        let scale = 1.0 / (q.size()[3] as f64).sqrt();
        let over_heads = |map: &Linear, x: &Tensor| map.forward(&x.permute([0, 2, 3, 1])).permute([0, 3, 1, 2]);
        let logits = over_heads(&self.logits, &(q * scale).matmul(&k.transpose(-2, -1))); // [B, H, N, N]
        pass.record_attention(|| logits.to_kind(Kind::Float));
        let weights = over_heads(&self.weights, &logits.softmax(-1, None::<Kind>));
        weights.matmul(&v).transpose(1, 2).flatten(2, 3)
    }
}

/// The fused projection to queries, keys and values.
#[derive(Debug)]
struct Qkv {
    linear: Linear,              // [3 D, D]
    no_key: Option<[Tensor; 2]>, // [D]: the biases of queries and values, where keys have none
}

impl Qkv {
    /// The matrix is one parameter, drawn at once; gains that differ scale its thirds afterwards.
    fn new(scope: &Scope, width: i64, gains: [f64; 3], bias: QkvBias) -> Result<Qkv, ScopeError> {
        let whole = (bias == QkvBias::All).then_some(Init::Constant(0.0));
        let equal = gains.iter().all(|g| *g == gains[0]);
        let init = Init::TruncNormal { std: LINEAR_STD, gain: if equal { gains[0] } else { 1.0 } };
        let linear = Linear::with(scope, &[3 * width, width], init, whole)?;
        // A counting scope's tensors are one number expanded: they can't be written, and need not be.
        if !equal && linear.weight().is_contiguous() {
            tch::no_grad(|| {
                for (third, gain) in gains.into_iter().enumerate() {
                    let _ = linear.weight().narrow(0, third as i64 * width, width).g_mul_scalar_(gain);
                }
            });
        }
        let part = |name: &str| scope.parameter(name, &[width], Init::Constant(0.0), Group::NoDecay);
        let no_key = match bias {
            QkvBias::NoKey => Some([part("query_bias")?, part("value_bias")?]),
            QkvBias::All | QkvBias::None => None,
        };
        Ok(Qkv { linear, no_key })
    }

    /// h: [B, N, D] -> [B, N, 3 D]
    fn forward(&self, h: &Tensor) -> Tensor {
        match &self.no_key {
            None => self.linear.forward(h),
            Some([query, value]) => {
                let bias = Tensor::cat(&[query.shallow_clone(), query.zeros_like(), value.shallow_clone()], 0);
                h.linear(self.linear.weight(), Some(bias))
            }
        }
    }
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
