"""Images per second of reslab's loader beside torchvision's ImageFolder with torch's DataLoader, with the same number of workers.

    cargo build -p reslab-data --example decode
    python experiments/decode-throughput/compare.py [--rounds 5] [--workers 2] [--folder DIR]

Needs a Python with torchvision and pillow. Makes a folder of JPEG files of ImageNet's usual size (500 x 375, about 110 KB) once, unless
--folder names one with train/ and val/ that is there. Each round runs the two one after the other, each in a process of its own, and begins with
the other one. Prints a Markdown table of medians; the ratio is taken within each round. Images per second are of use on an idle machine only;
processor time per image is steadier.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image, ImageDraw

here = pathlib.Path(__file__).resolve().parent
root = here.parent.parent
parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--size", type=int, default=224)
parser.add_argument("--images", type=int, default=512, help="per part")
parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "reslab-decode-throughput")
parser.add_argument("--program", default=str(root / "target" / "debug" / "examples" / "decode"))
arguments = parser.parse_args()


def photo(seed):
    """Fractal noise, as natural images have it, with shapes: it compresses as a photograph does."""
    rng = np.random.default_rng(seed)
    height, width = (375, 500) if seed % 4 else (500, 375)
    y, x = np.meshgrid(np.fft.fftfreq(height), np.fft.rfftfreq(width), indexing="ij")
    fall = 1 / np.maximum(np.hypot(x, y), 1 / width) ** 1.2
    planes = [np.fft.irfft2(fall * np.fft.rfft2(rng.normal(size=(height, width))), (height, width)) for _ in range(3)]
    planes = [0.8 * planes[0] + 0.2 * plane for plane in planes]  # colours go together
    pixels = np.stack([128 + 45 * plane / plane.std() for plane in planes], axis=-1)
    pixels += rng.normal(0, 4, (height, width, 1))
    image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(6):
        left, top = rng.integers(0, width - 90), rng.integers(0, height - 90)
        box = [int(left), int(top), int(left + rng.integers(20, 90)), int(top + rng.integers(20, 90))]
        draw.ellipse(box, fill=tuple(int(v) for v in rng.integers(0, 255, 3)))
    return image


def make(folder):
    if folder.exists():
        return
    unfinished = folder.with_name(folder.name + ".part")
    for part in ["train", "val"]:
        for number in range(arguments.images):
            path = unfinished / part / f"class{number % 4}" / f"{number:05}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            photo(number + (part == "val") * 10**6).save(path, quality=92)
    unfinished.rename(folder)


make(arguments.folder)
files = list(arguments.folder.rglob("*.jpg"))
kilobytes = sum(file.stat().st_size for file in files) / len(files) / 1000
common = [str(arguments.folder), str(arguments.workers), str(arguments.batch), str(arguments.size)]
commands = {
    "reslab": [arguments.program, *common],
    "torchvision": [sys.executable, str(here / "torchvision_loader.py"), *common],
}
found = {name: [] for name in commands}
for number in range(arguments.rounds + 1):
    for name in list(commands)[:: 1 if number % 2 else -1]:
        figures = json.loads(subprocess.run(commands[name], check=True, capture_output=True, text=True).stdout)
        if number:  # the first round fills the file cache
            found[name].append(figures)
    if number:
        print(f"round {number}: {found['reslab'][-1]} {found['torchvision'][-1]}", file=sys.stderr)

load = os.getloadavg()[1]
print(f"{len(files)} JPEG files of {kilobytes:.0f} KB on average, {arguments.workers} workers, batches of {arguments.batch}, {arguments.size} pixels;")
print(f"{arguments.rounds} rounds on {os.cpu_count()} cores, load average {load:.1f}\n")
print("| median (range) | reslab | torchvision | reslab / torchvision |\n|---|---|---|---|")
for figure, unit, digits in [("images_per_s", "images/s", ".0f"), ("cpu_ms", "ms of processor time per image", ".2f")]:
    for kind in ["train", "evaluation"]:
        ours, theirs = ([figures[kind][figure] for figures in found[name]] for name in commands)
        ratios = [one / other for one, other in zip(ours, theirs)]
        cell = lambda values, form: f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"
        print(f"| {kind}, {unit} | {cell(ours, digits)} | {cell(theirs, digits)} | {cell(ratios, '.2f')} |")
