//! Exponential moving average of the weights.

use reslab_torch::foreach;
use reslab_torch::tch::{Tensor, no_grad_guard};

/// The average of a network's weights, with decay min(d, (1+t)/(10+t)) at step t: short at the start, so that the
/// first weights are forgotten.
#[derive(Debug)]
pub(crate) struct Ema {
    decay: f64,
    weights: Vec<Tensor>,
}

impl Ema {
    pub(crate) fn new(decay: f64, parameters: &[Tensor]) -> Self {
        Self { decay, weights: copies(parameters) }
    }

    /// Takes in the weights after `step` (from 0).
    pub(crate) fn update(&mut self, parameters: &[Tensor], step: u64) {
        foreach::lerp_(&self.weights, parameters, 1.0 - decay_at(self.decay, step));
    }

    pub(crate) fn weights(&self) -> &[Tensor] {
        &self.weights
    }
}

fn decay_at(decay: f64, step: u64) -> f64 {
    let t = step as f64;
    decay.min((1.0 + t) / (10.0 + t))
}

/// Copies of the values, without gradient.
pub(crate) fn copies(tensors: &[Tensor]) -> Vec<Tensor> {
    let _no_grad = no_grad_guard();
    tensors.iter().map(|t| t.detach().copy()).collect()
}

/// Runs `f` with `weights` in the place of `parameters`, and puts the old values back.
pub(crate) fn with_weights<T>(parameters: &[Tensor], weights: &[Tensor], f: impl FnOnce() -> T) -> T {
    let own = copies(parameters);
    assign(parameters, weights);
    let result = f();
    assign(parameters, &own);
    result
}

/// Sets the values of `parameters` to those of `weights`.
pub(crate) fn assign(parameters: &[Tensor], weights: &[Tensor]) {
    foreach::copy_(parameters, weights);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_formula_and_gives_the_weights_back() {
        let weight = Tensor::from_slice(&[1f32]);
        let mut ema = Ema::new(0.5, std::slice::from_ref(&weight));
        let mut expected = 1.0;
        for step in 0..20u64 {
            let _ = weight.shallow_clone().fill_(step as f64);
            ema.update(std::slice::from_ref(&weight), step);
            let decay = f64::min(0.5, (1.0 + step as f64) / (10.0 + step as f64));
            expected = decay * expected + (1.0 - decay) * step as f64;
        }
        assert!((ema.weights()[0].double_value(&[0]) - expected).abs() < 1e-5);
        let seen = with_weights(std::slice::from_ref(&weight), ema.weights(), || weight.double_value(&[0]));
        assert!((seen - expected).abs() < 1e-5);
        assert_eq!(weight.double_value(&[0]), 19.0);
    }
}
