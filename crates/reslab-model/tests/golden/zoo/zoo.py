"""A vision transformer of three blocks whose joins are written in PyTorch, to compare reslab's strategies with.

The scripts beside this file each write the strategies of one family: a subclass of Strategy per strategy, its equations
taken from the paper or its code, not from reslab's. `write` computes logits, loss and all gradients in double precision
with large random weights, so that every part counts, and leaves them in NAME.safetensors for tests/golden_zoo.rs.

Run with torch 2.11.0: python scales.py
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

DEPTH, WIDTH, HEADS, PATCH, CHANNELS, CLASSES, EPS = 3, 12, 3, 4, 2, 5, 1e-6
HEIGHT, WIDE, BATCH, HIDDEN = 8, 12, 3, 24


class Site:
    """Where a join stands."""

    def __init__(self, block, kind):
        self.block, self.kind, self.depth = block, kind, DEPTH
        self.index = 2 * block + (kind == "mlp")
        self.name = f"blocks.{block:02}.{kind}"


SITES = [Site(block, kind) for block in range(DEPTH) for kind in ("attention", "mlp")]


class Strategy:
    """One strategy: its TOML table, where the block's norms stand, and what it computes. A subclass overrides `join` and
    what else its paper needs. `net.p` holds all parameters by reslab's names; `net.memory` is empty at every pass."""

    residual = "kind = 'plain'"
    # A table that must give other logits: the control of the test.
    control = "kind = 'plain'"
    norm = "pre"  # pre, post, both, none

    def shapes(self, site):
        """Shapes of the parameters of one site, by their names behind the site's: {"join.gamma": (WIDTH,)}."""
        return {}

    def stream_shapes(self):
        """Shapes of the parameters of the stream: {"stream.query": (WIDTH,)}."""
        return {}

    def init(self, name, shape):
        """The value of a parameter of the strategy's own: near 1 for scales and norms, else around 0."""
        near_one = name.endswith(("gamma", "norm.weight"))
        return (1.0 if near_one else 0.0) + 0.3 * torch.randn(shape, dtype=torch.float64)

    def open(self, net, x):
        return x

    def close(self, net, s):
        return s

    def join(self, net, s, site):
        return s + net.branch(s, site)

    # Maps inside the branches. `h` is the branch's input behind its norm; q, k, v are [B, H, N, D/H].
    def qkv(self, net, q, k, v, h, site):
        return q, k, v

    def attended(self, net, a, h, site):
        return a

    def preactivation(self, net, u, h, site):
        return u

    def hidden(self, net, u, h, site):
        return u


class Net:
    def __init__(self, strategy):
        self.strategy, self.memory = strategy, {}
        shapes = {"patch_embed.weight": (WIDTH, CHANNELS * PATCH * PATCH), "patch_embed.bias": (WIDTH,),
                  "class_token": (1, 1, WIDTH), "position": (1, 1 + (HEIGHT // PATCH) * (WIDE // PATCH), WIDTH),
                  "head.weight": (CLASSES, WIDTH), "head.bias": (CLASSES,)}
        norms = []
        if strategy.norm in ("pre", "both"):
            norms.append("norm")
        for site in SITES:
            layers = {"attention": {"qkv": (3 * WIDTH, WIDTH), "out": (WIDTH, WIDTH)},
                      "mlp": {"fc1": (HIDDEN, WIDTH), "fc2": (WIDTH, HIDDEN)}}[site.kind]
            for name, shape in layers.items():
                shapes[f"{site.name}.{name}.weight"], shapes[f"{site.name}.{name}.bias"] = shape, shape[:1]
            placed = {"pre": ["norm"], "post": ["post_norm"], "both": ["norm", "out_norm"], "none": []}
            norms += [f"{site.name}.{norm}" for norm in placed[strategy.norm]]
        for norm in norms:
            shapes[f"{norm}.weight"] = shapes[f"{norm}.bias"] = (WIDTH,)
        torch.manual_seed(0)
        self.p = {}
        for name, shape in shapes.items():
            value = 0.3 * torch.randn(shape, dtype=torch.float64)
            self.p[name] = value + 1.0 if name.endswith("norm.weight") else value
        own = {f"{site.name}.{name}": shape for site in SITES for name, shape in strategy.shapes(site).items()}
        for name, shape in {**own, **strategy.stream_shapes()}.items():
            self.p[name] = strategy.init(name, shape)

    def layer_norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.p[f"{name}.weight"], self.p[f"{name}.bias"], EPS)

    def linear(self, x, name):
        return F.linear(x, self.p[f"{name}.weight"], self.p[f"{name}.bias"])

    def pre_norm(self, x, site):
        return self.layer_norm(x, f"{site.name}.norm") if self.strategy.norm in ("pre", "both") else x

    def body(self, h, site):
        """The branch behind its norm."""
        if site.kind == "mlp":
            u = F.gelu(self.strategy.preactivation(self, self.linear(h, f"{site.name}.fc1"), h, site))
            y = self.linear(self.strategy.hidden(self, u, h, site), f"{site.name}.fc2")
        else:
            b, n, d = h.shape
            q, k, v = self.linear(h, f"{site.name}.qkv").view(b, n, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
            q, k, v = self.strategy.qkv(self, q, k, v, h, site)
            scores = (q @ k.transpose(-1, -2) / (d // HEADS) ** 0.5).softmax(-1)
            a = (scores @ v).transpose(1, 2).reshape(b, n, d)
            y = self.linear(self.strategy.attended(self, a, h, site), f"{site.name}.out")
        return self.layer_norm(y, f"{site.name}.out_norm") if self.strategy.norm == "both" else y

    def branch(self, x, site):
        return self.body(self.pre_norm(x, site), site)

    def logits(self, images):
        self.memory = {}
        kernel = self.p["patch_embed.weight"].view(WIDTH, CHANNELS, PATCH, PATCH)
        x = F.conv2d(images, kernel, self.p["patch_embed.bias"], stride=PATCH).flatten(2).transpose(1, 2)
        x = torch.cat([self.p["class_token"].expand(BATCH, -1, -1), x], 1) + self.p["position"]
        s = self.strategy.open(self, x)
        for site in SITES:
            s = self.strategy.join(self, s, site)
            if self.strategy.norm == "post":
                s = self.layer_norm(s, f"{site.name}.post_norm")
        x = self.strategy.close(self, s)[:, 0]
        if self.strategy.norm in ("pre", "both"):
            x = self.layer_norm(x, "norm")
        return self.linear(x, "head")


def text(words):
    return torch.tensor(list(words.encode()), dtype=torch.uint8)


def write(name, strategy):
    """Leaves NAME.safetensors beside this file; NAME starts with the strategy's kind."""
    net = Net(strategy)
    for value in net.p.values():
        value.requires_grad_()
    torch.manual_seed(1)
    images = torch.randn(BATCH, CHANNELS, HEIGHT, WIDE, dtype=torch.float64)
    labels = torch.tensor([0, 3, 4])
    logits = net.logits(images)
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    out = {"images": images, "labels": labels, "logits": logits.detach(), "loss": loss.detach(),
           "text/residual": text(strategy.residual), "text/control": text(strategy.control), "text/norm": text(strategy.norm)}
    for key, value in net.p.items():
        out[f"weight/{key}"] = value.detach()
        if value.grad is None:
            raise SystemExit(f"{name}: nothing reaches {key}")
        out[f"grad/{key}"] = value.grad
    save_file({key: value.contiguous() for key, value in out.items()}, Path(__file__).with_name(f"{name}.safetensors"))
    print(f"{name}: logits up to {logits.abs().max():.3g}")
