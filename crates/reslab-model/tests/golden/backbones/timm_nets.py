"""Weights in timm's layouts, saved as timm saves them (safetensors of the state dict), with timm's features.

Run with timm 1.0.31 and torch 2.11.0: python timm_nets.py. Random weights: no released ones are needed.
"""

from functools import partial

import torch
from torch import nn
from timm.layers import LayerNorm, SwiGLUPacked, resample_abs_pos_embed
from timm.models.cait import Cait
from timm.models.eva import Eva
from timm.models.vision_transformer import VisionTransformer

from common import PATCH, SIZES, images, randomise, save

SMALL = dict(img_size=SIZES["native"], patch_size=PATCH, embed_dim=24, depth=2, num_heads=3, mlp_ratio=2.0)
# The keys of timm's own builders, but for the sizes.
DINOV3 = dict(
    SMALL, num_heads=2, dynamic_img_size=True, num_classes=0, global_pool="token", init_values=1e-5, rope_type="dinov3",
    rope_temperature=100, rope_rotate_half=True, use_rot_pos_emb=True, use_abs_pos_emb=False, num_reg_tokens=2,
    use_fc_norm=False, norm_layer=partial(LayerNorm, eps=1e-5),
)
CASES = {
    "timm_vit": (VisionTransformer, dict(SMALL, num_classes=5)),
    "timm_vit_mean": (VisionTransformer, dict(SMALL, num_classes=5, class_token=False, global_pool="avg")),
    "timm_vit_mean_class": (VisionTransformer, dict(SMALL, num_classes=5, global_pool="avg")),
    "timm_clip": (
        VisionTransformer, dict(SMALL, num_classes=0, pre_norm=True, norm_layer=partial(LayerNorm, eps=1e-5))
    ),
    "timm_deit3": (VisionTransformer, dict(SMALL, num_classes=5, no_embed_class=True, init_values=1e-6)),
    "timm_dinov2": (VisionTransformer, dict(SMALL, num_classes=0, init_values=1e-5)),
    "timm_dinov2_reg": (
        VisionTransformer, dict(SMALL, num_classes=0, init_values=1e-5, reg_tokens=2, no_embed_class=True)
    ),
    "timm_dinov2_swiglu": (
        VisionTransformer,
        dict(SMALL, num_classes=0, init_values=1e-5, mlp_ratio=2.66667, mlp_layer=SwiGLUPacked, act_layer=nn.SiLU),
    ),
    "timm_cait": (
        Cait, dict(SMALL, num_classes=5, depth_token_only=2, mlp_ratio_token_only=2.0, init_values=1e-5)
    ),
    "timm_dinov3": (Eva, dict(DINOV3, qkv_bias=False)),
    "timm_dinov3_qkvb": (Eva, dict(DINOV3, qkv_bias=True)),
    "timm_dinov3_swiglu": (Eva, dict(DINOV3, qkv_bias=False, swiglu_mlp=True, swiglu_align_to=8)),
}


def at_other_size(build, keys, model):
    """The same network for the other resolution, by timm's own resampling."""
    if build is not Cait:
        if not keys.get("dynamic_img_size"):
            model.set_input_size(img_size=SIZES["other"])
        return model
    other = Cait(**dict(keys, img_size=SIZES["other"])).eval()
    state = model.state_dict()
    grid = [side // PATCH for side in SIZES["other"]]
    state["pos_embed"] = resample_abs_pos_embed(state["pos_embed"], new_size=grid, num_prefix_tokens=0)
    other.load_state_dict(state)
    return other


@torch.no_grad()
def computed(model, x, classes):
    """Normed class token and patches; and the logits, where there is a head."""
    tokens = model.forward_features(x)
    registers = getattr(model, "num_prefix_tokens", 1) - int(getattr(model, "cls_token", None) is not None)
    if registers:
        tokens = torch.cat([tokens[:, :1], tokens[:, 1 + registers :]], 1)
    found = {"tokens": tokens}
    if classes:
        found |= {"features": model.forward_head(model.forward_features(x), pre_logits=True), "logits": model(x)}
    return found


def main():
    for seed, (case, (build, keys)) in enumerate(CASES.items()):
        model = randomise(build(**keys), seed)
        state = {name: t.clone() for name, t in model.state_dict().items()}
        golden = {}
        for size, x in images().items():
            model = model if size == "native" else at_other_size(build, keys, model)
            found = computed(model, x, keys["num_classes"])
            if keys.get("global_pool") == "avg":
                del found["tokens"]  # Without the norm, which stands behind the mean.
            golden |= {f"{size}/{name}": t for name, t in found.items()}
        save(case, state, golden)


if __name__ == "__main__":
    main()
