"""Times training steps of timm's VisionTransformer in PyTorch eager: the network of throughput.toml.

Prints one JSON line: seconds of every timed step, and the process's peak resident memory.
Needs torch 2.11.0 and timm 1.0.
"""

import argparse
import functools
import json
import resource
import time

import timm.models.vision_transformer as vit
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--threads", type=int, required=True)
arguments = parser.parse_args()

torch.set_num_threads(arguments.threads)
torch.manual_seed(0)
model = vit.VisionTransformer(
    img_size=28, patch_size=4, in_chans=1, num_classes=10, embed_dim=64, depth=48, num_heads=2, mlp_ratio=4.0,
    norm_layer=functools.partial(torch.nn.LayerNorm, eps=1e-6),
)
decay = [p for p in model.parameters() if p.ndim > 1]
no_decay = [p for p in model.parameters() if p.ndim <= 1]
groups = [{"params": decay, "weight_decay": 0.05}, {"params": no_decay, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=1e-4, fused=True)
images = torch.randint(0, 256, (6000, 1, 28, 28), dtype=torch.uint8)
labels = torch.randint(0, 10, (6000,))


def step():
    """One step with the work that reslab does too: pick, normalise, forward, backward, gradient norm, update."""
    index = torch.randint(0, 6000, (64,))
    batch = (images[index].float() / 255 - 0.286) / 0.353
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.cross_entropy(model(batch), labels[index])
    loss.backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
    optimizer.step()
    return loss.item(), norm.item()


model.train()
for _ in range(3):
    step()
seconds = []
for _ in range(arguments.steps):
    started = time.perf_counter()
    step()
    seconds.append(time.perf_counter() - started)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"seconds_per_step": seconds, "peak_memory_bytes": peak, "parameters": sum(p.numel() for p in model.parameters())}))
