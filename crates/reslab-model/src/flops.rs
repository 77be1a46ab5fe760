//! How much arithmetic a forward pass is.

use crate::{InputShape, ModelConfig, ModelKind};

/// Floating-point operations of one image's forward pass: matrix products and attention, a multiply-add as two. What a
/// strategy adds at its joins is not counted, nor norms, activations and rotations. A training step is three times as much.
pub fn flops_per_image(config: &ModelConfig, input: InputShape) -> f64 {
    let (n, d, hidden) = (config.tokens(input) as f64, config.width as f64, config.hidden() as f64);
    let patches = config.grid(input).iter().product::<i64>() as f64;
    let patch = (input.channels * config.patch_size * config.patch_size) as f64;
    let matrices = if config.is_gated() { 3.0 } else { 2.0 };
    // Linear maps over the heads before and behind the softmax.
    let talking = if config.kind == ModelKind::Cait { 2.0 * n * n * (config.num_heads as f64).powi(2) } else { 0.0 };
    let attention = n * d * 3.0 * d + 2.0 * n * n * d + n * d * d + talking;
    let mlp = matrices * n * d * hidden;
    // One token asks, and it and all patches answer.
    let class_block = 2.0 * d * d + (n + 1.0) * (2.0 * d * d + 2.0 * d) + matrices * d * hidden;
    let blocks = config.depth as f64 * (attention + mlp) + config.class_depth.unwrap_or(0) as f64 * class_block;
    2.0 * (patches * patch * d + blocks + (config.features() * input.classes) as f64)
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

    /// timm lists cait_xxs24_224 with 2.53 GMACs.
    #[test]
    fn cait_xxs24_has_its_known_cost() {
        let table = "kind = 'cait'\nclass_depth = 2\ndepth = 24\nwidth = 192\nnum_heads = 4\npatch_size = 16\n\
                     mlp_ratio = 4.0\nqkv_bias = true\npool = 'class'\nnorm_eps = 1e-6\nnorm = 'pre'\n";
        let config = ModelConfig::parse(&table.parse().unwrap()).unwrap();
        let macs = flops_per_image(&config, InputShape { channels: 3, height: 224, width: 224, classes: 1000 }) / 2.0;
        assert!((2.4e9..2.6e9).contains(&macs), "{macs}");
    }
}
