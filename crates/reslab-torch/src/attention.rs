//! Scaled dot-product attention over fused queries, keys and values.
//!
//! Shapes: B batch, N tokens, H heads, E width of a head.

use tch::{Device, Kind, Tensor};

use crate::ffi;

/// `softmax(q k^T / sqrt(E)) v` for every head, without mask and dropout (Vaswani et al. 2017, arXiv:1706.03762, eq. 1).
///
/// qkv: [B, N, 3 H E], as [B, N, 3, H, E] in memory -> [B, N, H E]
///
/// In f32 on the CPU a kernel of this crate computes it, which can be differentiated once; elsewhere libtorch's does.
///
/// # Panics
/// If `qkv` is not of this shape, as tch's own methods do.
pub fn attention(qkv: &Tensor, num_heads: i64) -> Tensor {
    let (b, n, width) = qkv.size3().expect("attention reads [B, N, 3 H E]");
    assert!(num_heads > 0 && width % (3 * num_heads) == 0, "{width} is not 3 x {num_heads} heads");
    if qkv.device() == Device::Cpu && qkv.kind() == Kind::Float && b * n > 0 {
        return ffi::attention(qkv, num_heads).expect("the shape was checked");
    }
    let heads = qkv.view([b, n, 3, num_heads, width / 3 / num_heads]).unbind(2);
    let [q, k, v] = [0, 1, 2].map(|part: usize| heads[part].transpose(1, 2)); // [B, H, N, E]
    let attended = Tensor::scaled_dot_product_attention(&q, &k, &v, None::<Tensor>, 0.0, false, None, false);
    attended.transpose(1, 2).reshape([b, n, width / 3])
}
