//! How much arithmetic a forward pass is.

use crate::{InputShape, ModelConfig};

/// Floating-point operations of one image's forward pass: matrix products and attention, a multiply-add as two. What a
/// strategy adds at its joins is not counted, nor norms and activations. A training step is three times as much.
pub fn flops_per_image(config: &ModelConfig, input: InputShape) -> f64 {
    let (n, d, hidden) = (config.tokens(input) as f64, config.width as f64, config.hidden() as f64);
    let patches = ((input.height / config.patch_size) * (input.width / config.patch_size)) as f64;
    let patch = (input.channels * config.patch_size * config.patch_size) as f64;
    let attention = n * d * 3.0 * d + 2.0 * n * n * d + n * d * d;
    let mlp = 2.0 * n * d * hidden;
    2.0 * (patches * patch * d + config.depth as f64 * (attention + mlp) + d * input.classes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// timm's vit_small_patch16_224 has 4.6 GMACs at 224 x 224 (fvcore counts 4.6e9 with attention).
    #[test]
    fn vit_small_has_its_known_cost() {
        let table = "kind = 'vit'\ndepth = 12\nwidth = 384\nnum_heads = 6\npatch_size = 16\nmlp_ratio = 4.0\n\
                     qkv_bias = true\npool = 'class'\nnorm_eps = 1e-6\nnorm = 'pre'\n";
        let config = ModelConfig::parse(&table.parse().unwrap()).unwrap();
        let macs = flops_per_image(&config, InputShape { channels: 3, height: 224, width: 224, classes: 1000 }) / 2.0;
        assert!((4.55e9..4.65e9).contains(&macs), "{macs}");
    }
}
