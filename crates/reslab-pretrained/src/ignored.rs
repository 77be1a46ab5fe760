//! Tensors that are no parameter of the network, each with the reason.

use crate::keys::Family;

/// Why a tensor of this canonical key is passed over; `None` where it may not be.
pub(crate) fn reason(family: Family, key: &str) -> Option<&'static str> {
    let parts: Vec<&str> = key.split('.').collect();
    match (family, &parts[..]) {
        (_, ["mask_token"] | ["embeddings", "mask_token"]) => Some("stands for masked patches, in pretraining only"),
        (Family::Blocks, ["rope_embed", "periods"]) => Some("computed from rope_base; checked to be the same"),
        (Family::Blocks, ["blocks", _, "attn", "qkv", "bias_mask"]) => {
            Some("zeros for the key's bias; checked to be that")
        }
        (Family::Blocks, ["local_cls_norm", _]) => Some("norm of local crops, in pretraining only"),
        (Family::Blocks, ["head_dist", _]) => Some("head of the distillation token, which this network lacks"),
        (Family::Blocks, ["dino_head" | "ibot_head", ..]) => Some("projection head, in pretraining only"),
        _ => None,
    }
}

/// Why a tensor of a run's own checkpoint is not among the weights that were asked for.
pub(crate) fn of_own(key: &str) -> Option<&'static str> {
    match key.split_once('/')?.0 {
        "optim" => Some("state of the optimizer"),
        "ema" => Some("averaged weights, which were not asked for"),
        "best" => Some("weights of the best validation, which were not asked for"),
        "model" => Some("weights of the last step, which were not asked for"),
        _ => None,
    }
}
