"""Times torchvision's ImageFolder and torch's DataLoader as crates/reslab-data/examples/decode.rs times reslab's loader.

    python torchvision_loader.py ROOT WORKERS BATCH SIZE

Prints images per second of a pass over train/ and over val/ as JSON. The workers are started, and a pass is made, before.
"""

import json
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


def speed(part, transform, is_train):
    images = ImageFolder(f"{root}/{part}", transform)
    loader = DataLoader(
        images, batch_size=batch, shuffle=is_train, drop_last=is_train, num_workers=workers, persistent_workers=True
    )
    for _ in range(2):  # the first pass starts the workers
        seen, started = 0, time.perf_counter()
        for pixels, labels in loader:
            ((pixels - mean) / std, labels)  # bytes travel, and are normalised behind the workers, as reslab does it
            seen += len(labels)
        seconds = time.perf_counter() - started
    return seen / seconds


print(json.dumps(dict(train=speed("train", train, True), evaluation=speed("val", centre, False))))
