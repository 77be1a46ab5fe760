"""Weights in the layouts of transformers, saved by `save_pretrained`, and in those of the authors' files.

The code of facebookresearch/dinov2 and dinov3 is no package, so the authors' files (`fb_*`) are made here: the same
weights under their names, and what transformers or timm computes with them. What differs in the authors' code is written
out below from its source: how DINOv2 resizes its positions (`kludge`), and the bias mask and the periods of DINOv3.

Run with transformers 5.24, timm 1.0.31, torch 2.11.0: python hf_nets.py. Random weights: no released ones are needed.
"""

import math
import shutil

import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import interpolate
from transformers import (
    Dinov2Config, Dinov2ForImageClassification, Dinov2Model, Dinov2WithRegistersConfig, Dinov2WithRegistersModel,
    DINOv3ViTConfig, DINOv3ViTModel,
)

import timm_nets
from common import HERE, PATCH, SIZES, images, randomise, save

SMALL = dict(
    image_size=SIZES["native"][0], patch_size=PATCH, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
)
V2 = dict(SMALL, mlp_ratio=2)
V3 = dict(SMALL, num_attention_heads=2, intermediate_size=48, num_register_tokens=2)
CASES = {
    "hf_dinov2": (Dinov2Model, Dinov2Config(**V2)),
    "hf_dinov2_swiglu": (Dinov2Model, Dinov2Config(**V2, use_swiglu_ffn=True)),
    "hf_dinov2_classifier": (Dinov2ForImageClassification, Dinov2Config(**V2, num_labels=5)),
    "hf_dinov2_reg": (Dinov2WithRegistersModel, Dinov2WithRegistersConfig(**V2, num_register_tokens=2)),
    "hf_dinov2_reg_swiglu": (
        Dinov2WithRegistersModel, Dinov2WithRegistersConfig(**V2, num_register_tokens=2, use_swiglu_ffn=True)
    ),
    "hf_dinov3": (DINOv3ViTModel, DINOv3ViTConfig(**V3)),
    "hf_dinov3_swiglu": (DINOv3ViTModel, DINOv3ViTConfig(**V3, use_gated_mlp=True, hidden_act="silu")),
}


@torch.no_grad()
def computed(model, x):
    backbone = getattr(model, "dinov2", model)
    tokens = backbone(x).last_hidden_state
    registers = getattr(model.config, "num_register_tokens", 0)
    found = {"tokens": torch.cat([tokens[:, :1], tokens[:, 1 + registers :]], 1)}
    if backbone is not model:
        found |= {"logits": model(x).logits}
    return found


def of_both(model):
    return {f"{size}/{name}": t for size, x in images().items() for name, t in computed(model, x).items()}


def kludge(position, size):
    """`interpolate_pos_encoding` of dinov2/models/vision_transformer.py with its defaults: interpolate_offset = 0.1,
    interpolate_antialias = False. (Its networks with registers take 0.0 and True: the size, and antialiased.)"""
    grid = math.isqrt(position.shape[1] - 1)
    rows, columns = (side // PATCH for side in size)
    if (rows, columns) == (grid, grid):
        return position
    patches = interpolate(
        position[:, 1:].reshape(1, grid, grid, -1).permute(0, 3, 1, 2),
        mode="bicubic",
        antialias=False,
        scale_factor=((rows + 0.1) / grid, (columns + 0.1) / grid),
    )
    assert patches.shape[-2:] == (rows, columns)
    return torch.cat([position[:, :1], patches.permute(0, 2, 3, 1).reshape(1, rows * columns, -1)], 1)


def fused(state, base, names):
    return torch.cat([state[f"{base}.{name}"] for name in names])


def fb_dinov2(state, swiglu):
    """From the keys that Dinov2Model saves."""
    out = {"cls_token": state["embeddings.cls_token"], "mask_token": state["embeddings.mask_token"]}
    out["pos_embed"] = state["embeddings.position_embeddings"]
    if "embeddings.register_tokens" in state:
        out["register_tokens"] = state["embeddings.register_tokens"]
    for last in ("weight", "bias"):
        out[f"patch_embed.proj.{last}"] = state[f"embeddings.patch_embeddings.projection.{last}"]
        out[f"norm.{last}"] = state[f"layernorm.{last}"]
        for i in range(SMALL["num_hidden_layers"]):
            theirs, ours = f"encoder.layer.{i}", f"blocks.{i}"
            parts = [f"{part}.{last}" for part in ("query", "key", "value")]
            out[f"{ours}.attn.qkv.{last}"] = fused(state, f"{theirs}.attention.attention", parts)
            out[f"{ours}.attn.proj.{last}"] = state[f"{theirs}.attention.output.dense.{last}"]
            mlp = {"w12": "weights_in", "w3": "weights_out"} if swiglu else {"fc1": "fc1", "fc2": "fc2"}
            for to, name in mlp.items():
                out[f"{ours}.mlp.{to}.{last}"] = state[f"{theirs}.mlp.{name}.{last}"]
            for k in (1, 2):
                out[f"{ours}.norm{k}.{last}"] = state[f"{theirs}.norm{k}.{last}"]
                out[f"{ours}.ls{k}.gamma"] = state[f"{theirs}.layer_scale{k}.lambda1"]
    return out


def fb_dinov3(state, swiglu, head_width):
    """From the keys that DINOv3ViTModel saves."""
    width = SMALL["hidden_size"]
    out = {"cls_token": state["embeddings.cls_token"], "storage_tokens": state["embeddings.register_tokens"]}
    out["mask_token"] = state["embeddings.mask_token"][0]
    out["rope_embed.periods"] = 100.0 ** (2 * torch.arange(head_width // 4) / (head_width // 2))
    for last in ("weight", "bias"):
        out[f"patch_embed.proj.{last}"] = state[f"embeddings.patch_embeddings.{last}"]
        out[f"norm.{last}"] = state[f"norm.{last}"]
        for i in range(SMALL["num_hidden_layers"]):
            theirs, ours = f"layer.{i}", f"blocks.{i}"
            attention = f"{theirs}.attention"
            if last == "weight":
                qkv = fused(state, attention, ["q_proj.weight", "k_proj.weight", "v_proj.weight"])
            else:
                # Their bias of the keys is stored, and multiplied with a mask of zeros: here it is not zero.
                qkv = torch.cat([state[f"{attention}.q_proj.bias"], torch.ones(width), state[f"{attention}.v_proj.bias"]])
                mask = torch.cat([torch.ones(width), torch.zeros(width), torch.ones(width)])
                out[f"{ours}.attn.qkv.bias_mask"] = mask
            out[f"{ours}.attn.qkv.{last}"] = qkv
            out[f"{ours}.attn.proj.{last}"] = state[f"{attention}.o_proj.{last}"]
            mlp = {"w1": "gate_proj", "w2": "up_proj", "w3": "down_proj"}
            for to, name in (mlp if swiglu else {"fc1": "up_proj", "fc2": "down_proj"}).items():
                out[f"{ours}.mlp.{to}.{last}"] = state[f"{theirs}.mlp.{name}.{last}"]
            for k in (1, 2):
                out[f"{ours}.norm{k}.{last}"] = state[f"{theirs}.norm{k}.{last}"]
                out[f"{ours}.ls{k}.gamma"] = state[f"{theirs}.layer_scale{k}.lambda1"]
    return out


def with_kludge(model):
    """What the authors' DINOv2 computes: transformers' network with their positions of each resolution."""
    own, golden = model.embeddings.position_embeddings.data, {}
    for size, x in images().items():
        resized = kludge(own, SIZES[size])
        model.embeddings.interpolate_pos_encoding = lambda *_, resized=resized: resized
        golden |= {f"{size}/{name}": t for name, t in computed(model, x).items()}
    del model.embeddings.interpolate_pos_encoding
    return golden


def renamed():
    """The authors' files from those that were saved above."""
    for case, (build, config) in CASES.items():
        swiglu = case.endswith("_swiglu")
        if "classifier" in case:
            continue
        model = build.from_pretrained(HERE / case).eval()
        state = load_file(HERE / case / "model.safetensors")
        if "dinov3" in case:
            tensors = fb_dinov3(state, swiglu, SMALL["hidden_size"] // config.num_attention_heads)
        else:
            tensors = fb_dinov2(state, swiglu)
        with_registers = "register_tokens" in tensors or "storage_tokens" in tensors
        save(case.replace("hf_", "fb_"), tensors, of_both(model) if with_registers else with_kludge(model))
    deit3()


def deit3():
    """DeiT-III's file from timm's. What the authors' main.py does to the positions: bicubic, to the size."""
    build, keys = timm_nets.CASES["timm_deit3"]
    state = load_file(HERE / "timm_deit3" / "model.safetensors")
    golden = {}
    for size, x in images().items():
        model = build(**dict(keys, img_size=SIZES[size])).eval()
        grid = math.isqrt(state["pos_embed"].shape[1])
        patches = state["pos_embed"].reshape(1, grid, grid, -1).permute(0, 3, 1, 2)
        to = [side // PATCH for side in SIZES[size]]
        patches = interpolate(patches, size=to, mode="bicubic", align_corners=False) if to != [grid, grid] else patches
        model.load_state_dict(state | {"pos_embed": patches.flatten(2).transpose(1, 2)})
        golden |= {f"{size}/{name}": t for name, t in timm_nets.computed(model, x, keys["num_classes"]).items()}
    gammas = {"ls1.gamma": "gamma_1", "ls2.gamma": "gamma_2"}
    theirs = lambda name: next((name.replace(a, b) for a, b in gammas.items() if name.endswith(a)), name)
    save("fb_deit3", {theirs(name): t for name, t in state.items()}, golden)


def main():
    for seed, (case, (build, config)) in enumerate(CASES.items()):
        model = randomise(build(config), 100 + seed)
        shutil.rmtree(HERE / case, ignore_errors=True)
        model.save_pretrained(HERE / case)
        save(case, None, of_both(model))
    renamed()
    save_file({f"{size}/images": x for size, x in images().items()}, HERE / "images.safetensors")


if __name__ == "__main__":
    main()
