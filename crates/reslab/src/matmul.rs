//! How fast this device multiplies matrices: the yardstick of `bench` and `doctor`.

use std::time::{Duration, Instant};
use tch::{Device, Kind, Tensor};

/// Measures for at least this long; the best repetition counts.
const LONG_ENOUGH: Duration = Duration::from_millis(400);

/// Floating-point operations per second of a large square product (a multiply-add is two): the best of several.
///
/// # Errors
/// What libtorch says, out of memory included.
pub(crate) fn peak(device: Device, kind: Kind) -> Result<f64, tch::TchError> {
    let size = if device == Device::Cpu { 1024 } else { 8192 };
    let _no_grad = tch::no_grad_guard();
    let left = Tensor::f_ones([size, size], (kind, device))?; // [S, S]
    let mut out = left.f_matmul(&left)?; // warm-up
    let mut best = f64::INFINITY;
    let begun = Instant::now();
    while begun.elapsed() < LONG_ENOUGH {
        reslab_torch::synchronize(device);
        let start = Instant::now();
        out = left.f_matmul(&left)?;
        reslab_torch::synchronize(device);
        best = best.min(start.elapsed().as_secs_f64());
    }
    drop(out);
    Ok(2.0 * (size as f64).powi(3) / best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_a_plausible_number_of_operations_per_second() {
        let peak = peak(Device::Cpu, Kind::Float).unwrap();
        assert!((1e8..1e15).contains(&peak), "{peak}");
    }
}
