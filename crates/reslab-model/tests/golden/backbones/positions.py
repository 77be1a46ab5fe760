"""Positions resized by each original: timm's function, transformers' method, and DINOv2's, which is no package (`kludge`
in hf_nets.py is copied from its source). Run with timm 1.0.31, transformers 5.24, torch 2.11.0: python positions.py."""

import torch
from safetensors.torch import save_file
from timm.layers import resample_abs_pos_embed
from transformers import Dinov2Config
from transformers.models.dinov2.modeling_dinov2 import Dinov2Embeddings

from common import HERE, PATCH
from hf_nets import kludge

GRIDS = [(3, 3), (7, 9), (5, 2), (11, 11)]


@torch.no_grad()
def main():
    torch.manual_seed(0)
    position = torch.randn(1, 1 + 5 * 5, 6)
    theirs = Dinov2Embeddings(Dinov2Config(image_size=5 * PATCH, patch_size=PATCH, hidden_size=6, num_attention_heads=2))
    theirs.position_embeddings.data = position
    out = {"position": position}
    for rows, columns in GRIDS:
        size = (rows * PATCH, columns * PATCH)
        name = f"{rows}x{columns}"
        out[f"timm/{name}"] = resample_abs_pos_embed(position, new_size=[rows, columns], num_prefix_tokens=1)
        out[f"hf/{name}"] = theirs.interpolate_pos_encoding(torch.zeros(1, 1 + rows * columns, 6), *size)
        out[f"dinov2/{name}"] = kludge(position, size)
    save_file({name: t.contiguous() for name, t in out.items()}, HERE / "positions.safetensors")


if __name__ == "__main__":
    main()
