"""What the scripts share: images, random weights, and a case as a folder of files.

A case is a folder: `model.safetensors` (and `config.json` where transformers writes one) as the original code saves it,
and `golden.safetensors` with what the original code computes from it on both resolutions.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file

torch.set_num_threads(1)  # The same bits again.
HERE = Path(__file__).parent
PATCH = 4
# Native: a grid of 4 x 4. The other one is not square, larger in one direction and smaller in the other.
SIZES = {"native": (16, 16), "other": (20, 12)}


def images():
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(2, 3, *size, generator=generator) for name, size in SIZES.items()}


def randomise(model, seed):
    """All weights random, so that each of them counts; gammas of both signs, norms away from 1 and 0."""
    generator = torch.Generator().manual_seed(seed)
    normal = lambda p: torch.randn(p.shape, generator=generator)
    for name, p in model.named_parameters():
        last = name.split(".")[-1]
        if "gamma" in last or last == "lambda1":
            p.data = torch.sign(normal(p)) * (0.3 + 0.7 * torch.rand(p.shape, generator=generator))
        elif "norm" in name and last == "weight":
            p.data = 1 + 0.3 * normal(p)
        elif p.ndim >= 2 and "token" not in last and "embed" not in last and "embeddings" not in last:
            p.data = normal(p) / p[0].numel() ** 0.5
        else:
            p.data = 0.5 * normal(p)
    return model.eval()


def save(case, tensors, golden):
    folder = HERE / case
    folder.mkdir(exist_ok=True)
    if tensors is not None:
        save_file({name: t.contiguous().clone() for name, t in tensors.items()}, folder / "model.safetensors")
    save_file({name: t.detach().contiguous().clone() for name, t in golden.items()}, folder / "golden.safetensors")
    for path in folder.iterdir():
        assert path.stat().st_size < 150_000, path
    print(case)
