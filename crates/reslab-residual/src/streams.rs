//! Several streams side by side: copies of the network's stream that joins mix.
//!
//! Shapes: B batch, N tokens, D width, C copies, S = C * D width of the stream.

use tch::Tensor;

use crate::{Pass, Stream};

/// The stream opened as copies of the embedding and closed by their sum.
#[derive(Debug, Clone, Copy)]
pub struct Copies {
    /// Number C of copies.
    pub count: i64,
    /// The network's width D.
    pub width: i64,
}

impl Stream for Copies {
    fn width(&self) -> i64 {
        self.count * self.width
    }
    fn open(&self, x: &Tensor, _pass: &mut Pass) -> Tensor {
        x.repeat([1, 1, self.count])
    }
    fn close(&self, stream: &Tensor, _pass: &mut Pass) -> Tensor {
        split(stream, self.count).sum_dim_intlist([2i64].as_slice(), false, None)
    }
}

/// The copies of a stream, each for itself: `[B, N, C * D] -> [B, N, C, D]`.
pub fn split(stream: &Tensor, count: i64) -> Tensor {
    let (b, n, width) = stream.size3().expect("a stream is [B, N, S]");
    stream.view([b, n, count, width / count])
}

/// Weighted sums of the copies: `weights [.., R, C]`, `copies [B, N, C, D] -> [B, N, R, D]`. Autocast is off, since the
/// stream itself goes through here and would lose its low bits at every join.
pub fn mix(weights: &Tensor, copies: &Tensor) -> Tensor {
    let _exact = reslab_torch::autocast_bf16(copies.device(), false);
    weights.to_kind(copies.kind()).matmul(copies)
}
