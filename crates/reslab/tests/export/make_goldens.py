"""Exported networks, opened by timm and transformers with the very line that `reslab export` prints.

    python make_goldens.py RESLAB            trains the networks of networks.toml and writes checkpoints and goldens
    python make_goldens.py RESLAB --check    exports the committed checkpoints again and compares with the goldens

RESLAB is the built program. Wants torch 2.11, timm 1.0.31, transformers 5.24 and safetensors. Per network and export a
golden holds what the other program computes for images.safetensors: logits, or without a head features.
"""

import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
# Exports by name: the arguments.
TIMM, FOLDED, HF, HF_FEATURES = (["--layout", "timm"], ["--layout", "timm", "--fold-gamma"], ["--layout", "hf"],
                                 ["--layout", "hf", "--no-head"])
EXPORTS = {
    "plain_mean": {"timm": TIMM},
    "layer_scale": {"timm": TIMM, "timm_folded": FOLDED, "hf": HF},
    "rezero_positions_of_patches": {"timm": TIMM, "hf": HF},
    "registers_swiglu": {"timm": TIMM, "hf": HF},
    "class_mean": {"hf": HF},
    "rope": {"timm": TIMM, "timm_folded": FOLDED, "hf_features": HF_FEATURES},
    "cait": {"timm": TIMM},
}


def train(reslab):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([reslab, "sweep", str(HERE / "networks.toml"), "--out", folder, "--profile", "none"], check=True)
        for arm in EXPORTS:
            [run] = pathlib.Path(folder).glob(f"export/runs/{arm}-s0-*")
            (HERE / arm).mkdir(exist_ok=True)
            for name in ["checkpoint.safetensors", "config.toml"]:
                shutil.copy(run / name, HERE / arm / name)


def export(reslab, arm, name, arguments, folder):
    """The file that was written, and the network as the printed line opens it."""
    out = folder / (name if name.startswith("hf") else f"{name}.safetensors")
    printed = subprocess.run([reslab, "export", str(HERE / arm), *arguments, "--out", str(out)], check=True,
                             capture_output=True, text=True).stdout
    scope = {}
    exec(printed.split("; open it: ")[1], scope)
    return (out / "model.safetensors" if out.is_dir() else out), scope["m"].eval()


@torch.no_grad()
def compute(model, images):
    out = model(images)
    if torch.is_tensor(out):
        return out
    return out.logits if hasattr(out, "logits") else out.pooler_output


def main():
    reslab, check = str(pathlib.Path(sys.argv[1]).resolve()), "--check" in sys.argv
    if not check:
        train(reslab)
        images = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        save_file({"images": images}, HERE / "images.safetensors")
    images = load_file(HERE / "images.safetensors")["images"]
    goldens, digests = {}, {}
    for arm, exports in EXPORTS.items():
        with tempfile.TemporaryDirectory() as folder:
            for name, arguments in exports.items():
                file, model = export(reslab, arm, name, arguments, pathlib.Path(folder))
                goldens[f"{arm}/{name}"] = compute(model, images).contiguous()
                digests[f"{arm}/{name}"] = hashlib.sha256(file.read_bytes()).hexdigest()
    if not check:
        save_file(goldens, HERE / "golden.safetensors")
        (HERE / "sha256.json").write_text(json.dumps(digests, indent=2) + "\n")
        return
    expected = load_file(HERE / "golden.safetensors")
    assert expected.keys() == goldens.keys()
    worst = max(float((expected[key] - goldens[key]).abs().max() / expected[key].abs().max()) for key in goldens)
    assert digests == json.loads((HERE / "sha256.json").read_text()), "a file has other bytes"
    assert worst < 1e-5, worst
    print(f"{len(goldens)} exports agree to {worst:.1e}")


main()
