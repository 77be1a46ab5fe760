"""Times torchvision's ImageFolder and torch's DataLoader as crates/reslab-data/examples/decode.rs times reslab's loader.

    python torchvision_loader.py ROOT WORKERS BATCH SIZE

Prints images per second, and milliseconds of processor time per image, of a pass over train/ and over val/ as JSON. The workers are started, and
a pass is made, before.
"""

import json
import os
import pathlib
import sys
import time

import torch
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision.datasets import ImageFolder
from torchvision.transforms import InterpolationMode

root, workers, batch, size = sys.argv[1], *map(int, sys.argv[2:5])
torch.set_num_threads(1)
bicubic = InterpolationMode.BICUBIC
mean = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1) * 255
std = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1) * 255
train = T.Compose([T.RandomResizedCrop(size, interpolation=bicubic), T.RandomHorizontalFlip(), T.PILToTensor()])
centre = T.Compose([T.Resize(int(size / 0.875), interpolation=bicubic), T.CenterCrop(size), T.PILToTensor()])


def cpu_seconds():
    """Processor time of this process and its workers so far."""
    total = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has just ended
            continue
        if int(stat.parent.name) == os.getpid() or int(fields[1]) == os.getpid():
            total += int(fields[11]) + int(fields[12])
    return total / 100


def figures(part, transform, is_train):
    images = ImageFolder(f"{root}/{part}", transform)
    loader = DataLoader(
        images, batch_size=batch, shuffle=is_train, drop_last=is_train, num_workers=workers, persistent_workers=True
    )
    for _ in range(2):  # the first pass starts the workers
        seen, started, cpu = 0, time.perf_counter(), cpu_seconds()
        for pixels, labels in loader:
            ((pixels - mean) / std, labels)  # bytes travel, and are normalised behind the workers, as reslab does it
            seen += len(labels)
        seconds, cpu = time.perf_counter() - started, cpu_seconds() - cpu
    return dict(images_per_s=seen / seconds, cpu_ms=1000 * cpu / seen)


print(json.dumps(dict(train=figures("train", train, True), evaluation=figures("val", centre, False))))
