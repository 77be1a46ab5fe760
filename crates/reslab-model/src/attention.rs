//! Multi-head self-attention.
//!
//! Shapes: B batch, N tokens, D width, H heads.

use reslab_residual::{Inner, Pass, Site, Strategy, Weight};
use reslab_torch::{Init, Scope, ScopeError};
use tch::Tensor;

use crate::ModelConfig;
use crate::layers::{LINEAR_STD, Linear};

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
        if let Some(map) = &self.inner.values {
            let parts = qkv.view([b, n, 3, self.num_heads, d / self.num_heads]).unbind(2); // 3 x [B, N, H, D/H]
            let v = map.map(&parts[2].transpose(1, 2), h, pass).transpose(1, 2);
            qkv = Tensor::stack(&[&parts[0], &parts[1], &v], 2).view([b, n, 3 * d]);
        }
        let mut attended = reslab_torch::attention(&qkv, self.num_heads); // [B, N, D]
        if let Some(map) = &self.inner.attended {
            attended = map.map(&attended, h, pass);
        }
        self.out.forward(&attended)
    }
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
