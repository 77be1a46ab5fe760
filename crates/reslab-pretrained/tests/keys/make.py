"""Writes small_*.tsv: keys and shapes of small networks, as timm and transformers save them.

    python tests/keys/make.py        (torch 2.11, timm 1.0.31, transformers 5.24)

The other lists of this folder are of released files (their numbers of blocks as {12}); those of the authors' own files
are made small here by exchanging sizes.
"""

import pathlib
import re
import tempfile

import timm
import torch
from safetensors.torch import load_file
from timm.layers import SwiGLU, SwiGLUPacked
from timm.models.cait import Cait
from timm.models.vision_transformer import VisionTransformer
from transformers import (Dinov2Config, Dinov2ForImageClassification, Dinov2Model, Dinov2WithRegistersConfig,
                          Dinov2WithRegistersForImageClassification, Dinov2WithRegistersModel, DINOv3ViTConfig,
                          DINOv3ViTModel)

HERE = pathlib.Path(__file__).parent
NUMBER = re.compile(r"(blocks|blocks_token_only|layer)\.(\d+)\.")


def write(name, tensors):
    """Blocks that are alike become one line."""
    groups = {}
    for key, shape in tensors.items():
        found = NUMBER.search(key)
        line = (NUMBER.sub(lambda m: m[1] + ".{}.", key, count=1), shape) if found else (key, shape)
        groups.setdefault(line, []).append(int(found[2]) if found else None)
    lines = [f"# {len(tensors)} tensors"]
    for (key, shape), numbers in groups.items():
        if numbers != [None]:
            assert sorted(numbers) == list(range(len(numbers))), key
            key = key.replace("{}", "{%d}" % len(numbers))
        lines.append(key + "\t" + "x".join(map(str, shape)))
    (HERE / f"small_{name}.tsv").write_text("\n".join(lines) + "\n")


def shapes(state):
    return {key: tuple(tensor.shape) for key, tensor in state.items()}


def of_timm(name, model):
    write(name, shapes(model.state_dict()))


def of_transformers(name, model):
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        write(name, shapes(load_file(folder + "/model.safetensors")))


def of_authors(name, file):
    """A released list with other sizes."""
    tensors = {}
    for line in (HERE / file).read_text().splitlines()[1:]:
        key, shape = line.split("\t")
        key = key.replace("{12}", "{2}")
        if key.endswith("patch_embed.proj.weight"):
            shape = "16x3x4x4"
        elif key.endswith("periods"):
            shape = "2"
        else:
            small = {"384": "16", "1152": "48", "1536": "32", "1000": "3", "196": "16", "1370": "17"}
            shape = "x".join(small.get(size, size) for size in shape.split("x"))
        for block in range(2) if "{2}" in key else [0]:
            tensors[key.replace("{2}", str(block))] = tuple(map(int, shape.split("x")))
    write(name, tensors)


vit = dict(img_size=16, patch_size=4, embed_dim=16, depth=2, num_heads=2, mlp_ratio=2, num_classes=3)
of_timm("timm_vit", VisionTransformer(**vit))
of_timm("timm_vit_avg", VisionTransformer(**vit, global_pool="avg"))
of_timm("timm_vit_avg_no_class", VisionTransformer(**vit, global_pool="avg", class_token=False))
of_timm("timm_vit_mean_of_normed", VisionTransformer(**vit, global_pool="avg", class_token=False, fc_norm=False))
of_timm("timm_vit_registers_pre_norm",
        VisionTransformer(**vit, init_values=1e-5, reg_tokens=4, no_embed_class=True, pre_norm=True))
of_timm("timm_vit_registers_with_positions", VisionTransformer(**vit, init_values=1e-5, reg_tokens=2))
of_timm("timm_vit_swiglu_packed",
        VisionTransformer(**vit, init_values=1e-5, mlp_layer=SwiGLUPacked, act_layer=torch.nn.SiLU))
of_timm("timm_vit_swiglu", VisionTransformer(**vit, mlp_layer=SwiGLU, qkv_bias=False))
of_timm("timm_distilled", timm.models.deit.VisionTransformerDistilled(**vit))
of_timm("timm_cait", Cait(img_size=16, patch_size=4, embed_dim=16, depth=2, num_heads=2, num_classes=3))
eva = dict(embed_dim=16, depth=2, num_heads=2, num_classes=3, global_pool="token", patch_size=4)
for name in ["vit_small_patch16_dinov3", "vit_small_patch16_dinov3_qkvb", "vit_small_plus_patch16_dinov3"]:
    of_timm("timm_" + name.replace("vit_small_", "").replace("patch16_", ""), timm.create_model(name, **eva))

hf = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=4)
of_transformers("hf_dinov2", Dinov2Model(Dinov2Config(**hf, mlp_ratio=2)))
of_transformers("hf_dinov2_swiglu", Dinov2Model(Dinov2Config(**hf, mlp_ratio=2, use_swiglu_ffn=True)))
of_transformers("hf_dinov2_no_qkv_bias", Dinov2Model(Dinov2Config(**hf, mlp_ratio=2, qkv_bias=False)))
of_transformers("hf_dinov2_classifier",
                Dinov2ForImageClassification(Dinov2Config(**hf, mlp_ratio=2, num_labels=3)))
registers = Dinov2WithRegistersConfig(**hf, mlp_ratio=2, num_labels=3)
of_transformers("hf_dinov2_with_registers", Dinov2WithRegistersModel(registers))
of_transformers("hf_dinov2_with_registers_classifier", Dinov2WithRegistersForImageClassification(registers))
of_transformers("hf_dinov2_with_registers_swiglu",
                Dinov2WithRegistersModel(Dinov2WithRegistersConfig(**hf, mlp_ratio=2, use_swiglu_ffn=True)))
v3 = dict(**hf, intermediate_size=32)
of_transformers("hf_dinov3", DINOv3ViTModel(DINOv3ViTConfig(**v3, num_register_tokens=4)))
of_transformers("hf_dinov3_swiglu",
                DINOv3ViTModel(DINOv3ViTConfig(**v3, num_register_tokens=4, use_gated_mlp=True, hidden_act="silu")))
of_transformers("hf_dinov3_no_registers_key_bias", DINOv3ViTModel(DINOv3ViTConfig(**v3, key_bias=True)))
# What torch saves of a model of transformers 5, without save_pretrained.
write("hf_dinov2_in_memory", shapes(Dinov2Model(Dinov2Config(**hf, mlp_ratio=2)).state_dict()))
write("hf_dinov3_in_memory", shapes(DINOv3ViTModel(DINOv3ViTConfig(**v3, num_register_tokens=4)).state_dict()))

of_authors("fb_dinov2", "fb_dinov2_vits14_pretrain.tsv")
of_authors("fb_dinov2_registers", "fb_dinov2_vits14_reg4_pretrain.tsv")
of_authors("fb_dinov3", "fb_dinov3_vits16_pretrain_lvd1689m.tsv")
of_authors("fb_deit3", "fb_deit3_small_224.under-key-model.tsv")
