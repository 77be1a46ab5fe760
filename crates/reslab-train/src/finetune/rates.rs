//! Which parameters are trained, and at which share of the learning rate.

use reslab_torch::{Group, Parameter};

use super::config::{Backbone, FinetuneConfig, GammaRule};

/// Blocks of the network: those of the trunk, and those behind it that only the class token passes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Depths {
    pub blocks: usize,
    pub class_blocks: usize,
}

/// Whether this parameter is trained.
pub(crate) fn is_trained(config: &FinetuneConfig, parameter: &Parameter) -> bool {
    if config.backbone == Backbone::Frozen {
        return parameter.name.starts_with("head.");
    }
    !(config.gamma == GammaRule::Freeze && parameter.group == Group::Gamma)
}

/// `decay^(layers above it)`: embeddings are layer 0, block b is layer b + 1, head and final norm are above all blocks.
pub(crate) fn lr_factor(decay: f64, depths: Depths, name: &str) -> f64 {
    let top = depths.blocks + depths.class_blocks + 1;
    let mut parts = name.split('.');
    let (first, index) = (parts.next(), parts.next().and_then(|index| index.parse::<usize>().ok()));
    let layer = match (first, index) {
        (Some("blocks"), Some(block)) => block + 1,
        (Some("class_blocks"), Some(block)) => depths.blocks + block + 1,
        (Some("norm" | "head" | "stream"), _) => top,
        _ => 0,
    };
    decay.powi((top - layer.min(top)) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_falls_from_the_head_to_the_embeddings() {
        let depths = Depths { blocks: 3, class_blocks: 0 };
        let factor = |name: &str| lr_factor(0.5, depths, name);
        assert_eq!(factor("head.weight"), 1.0);
        assert_eq!(factor("norm.bias"), 1.0);
        assert_eq!(factor("blocks.02.mlp.join.gamma"), 0.5);
        assert_eq!(factor("blocks.00.attention.qkv.weight"), 0.125);
        for name in ["patch_embed.weight", "position", "class_token", "registers", "embed_norm.weight"] {
            assert_eq!(factor(name), 0.0625, "{name}");
        }
        assert_eq!(lr_factor(1.0, depths, "position"), 1.0);
        let cait = Depths { blocks: 3, class_blocks: 2 };
        assert_eq!(lr_factor(0.5, cait, "class_blocks.01.mlp.fc1.weight"), 0.5);
        assert_eq!(lr_factor(0.5, cait, "blocks.02.mlp.fc1.weight"), 0.125);
    }
}
