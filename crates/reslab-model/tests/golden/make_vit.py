"""Writes vit.safetensors: what timm's VisionTransformer computes, in double precision, for tests/golden.rs.

Run with torch 2.11.0 and timm 1.0.31: python make_vit.py

One set of weights, under reslab's names (`weight/...`), and per case its logits, loss and gradients:
  class, mean                with and without LayerScale (`layer_scale.class`, ..): timm itself
  post, both, none           plain joins with the norms elsewhere: written out below with torch functions
and the numbers of parameters of the depth-48 network of configs/depth48.toml, counted by timm.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer

DEPTH, WIDTH, HEADS, PATCH, CHANNELS, CLASSES, EPS = 2, 12, 3, 4, 2, 5, 1e-6
HEIGHT, WIDE, BATCH, HIDDEN = 8, 12, 3, 24


def ours(name):
    """A timm name as reslab's."""
    for theirs, mine in [("patch_embed.proj.", "patch_embed."), ("cls_token", "class_token"), ("pos_embed", "position"),
                         ("fc_norm.", "norm."), (".norm1.", ".attention.norm."), (".attn.qkv.", ".attention.qkv."),
                         (".attn.proj.", ".attention.out."), (".ls1.", ".attention.join."), (".ls2.", ".mlp.join."),
                         (".norm2.", ".mlp.norm.")]:
        name = name.replace(theirs, mine)
    parts = name.split(".")
    if parts[0] == "blocks":
        parts[1] = f"{int(parts[1]):02}"
    return ".".join(parts)


def build(pool, init_values, **sizes):
    shape = dict(img_size=(HEIGHT, WIDE), patch_size=PATCH, in_chans=CHANNELS, num_classes=CLASSES, embed_dim=WIDTH,
                 depth=DEPTH, num_heads=HEADS, mlp_ratio=HIDDEN / WIDTH)
    shape.update(sizes)
    return VisionTransformer(global_pool="token" if pool == "class" else "avg", class_token=pool == "class",
                             init_values=init_values, **shape)


def weights():
    """Weights of every case, random but for gammas and norms that stay near 1: gradients are then far from 0."""
    torch.manual_seed(0)
    found = {ours(n): p.shape for n, p in build("class", 0.1).named_parameters()}
    for site in [f"blocks.{b:02}.{kind}" for b in range(DEPTH) for kind in ("attention", "mlp")]:
        for norm in ("out_norm", "post_norm"):
            found[f"{site}.{norm}.weight"] = found[f"{site}.{norm}.bias"] = (WIDTH,)
    made = {}
    for name, shape in found.items():
        near_one = "norm.weight" in name or name.endswith("gamma")
        made[name] = (1.0 if near_one else 0.0) + 0.3 * torch.randn(shape, dtype=torch.float64)
    return made


def pick(made, name, pool):
    # The mean-pooled network has no class token, and so one position less.
    return made[name][:, 1:] if name == "position" and pool == "mean" else made[name]


def timm_case(made, pool, scaled, images, labels):
    net = build(pool, 0.1 if scaled else None).double().train()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.copy_(pick(made, ours(name), pool))
    logits = net(images)
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    out = {"logits": logits.detach(), "loss": loss.detach()}
    for name, parameter in net.named_parameters():
        grad = parameter.grad
        out[f"grad/{ours(name)}"] = grad.flatten(1) if name == "patch_embed.proj.weight" else grad
    return out


def placed(made, placement, images, labels):
    """The class-token network with its norms elsewhere, from the equations in reslab_residual::Norm."""
    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), made[f"{name}.weight"], made[f"{name}.bias"], EPS)

    def linear(x, name):
        return F.linear(x, made[f"{name}.weight"], made[f"{name}.bias"])

    def body(h, site):
        if site.endswith("mlp"):
            return linear(F.gelu(linear(h, f"{site}.fc1")), f"{site}.fc2")
        b, n, d = h.shape
        q, k, v = linear(h, f"{site}.qkv").view(b, n, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2) / (d // HEADS) ** 0.5).softmax(-1)
        return linear((scores @ v).transpose(1, 2).reshape(b, n, d), f"{site}.out")

    x = F.conv2d(images, made["patch_embed.weight"], made["patch_embed.bias"], stride=PATCH).flatten(2).transpose(1, 2)
    x = torch.cat([made["class_token"].expand(BATCH, -1, -1), x], 1) + made["position"]
    for site in [f"blocks.{b:02}.{kind}" for b in range(DEPTH) for kind in ("attention", "mlp")]:
        if placement == "post":
            x = norm(x + body(x, site), f"{site}.post_norm")
        elif placement == "both":
            x = x + norm(body(norm(x, f"{site}.norm"), site), f"{site}.out_norm")
        elif placement == "pre":
            x = x + body(norm(x, f"{site}.norm"), site)
        else:
            x = x + body(x, site)
    x = x[:, 0]
    if placement in ("pre", "both"):
        x = norm(x, "norm")
    logits = linear(x, "head")
    return {"logits": logits, "loss": F.cross_entropy(logits, labels)}


def main():
    made = weights()
    torch.manual_seed(1)
    images = torch.randn(BATCH, CHANNELS, HEIGHT, WIDE, dtype=torch.float64)
    labels = torch.tensor([0, 3, 4])
    cases = {("layer_scale." if scaled else "") + pool: timm_case(made, pool, scaled, images, labels)
             for pool in ("class", "mean") for scaled in (False, True)}
    # The written-out network is timm's where both exist.
    assert torch.allclose(placed(made, "pre", images, labels)["logits"], cases["class"]["logits"], atol=1e-12)
    for placement in ("post", "both", "none"):
        cases[placement] = placed(made, placement, images, labels)

    tensors = {"images": images, "labels": labels}
    for name, value in made.items():
        tensors[f"weight/{name}"] = value.flatten(1) if name == "patch_embed.weight" else value
    for case, values in cases.items():
        for name, value in values.items():
            tensors[f"{case}/{name}"] = value
    for pool in ("class", "mean"):
        for label, init_values in (("", None), ("layer_scale.", 1e-5)):
            net = build(pool, init_values, img_size=28, patch_size=4, in_chans=1, num_classes=10, embed_dim=192, depth=48,
                        num_heads=3, mlp_ratio=4)
            tensors[f"depth48/{label}{pool}"] = torch.tensor(sum(p.numel() for p in net.parameters()))
    save_file({n: t.contiguous() for n, t in tensors.items()}, Path(__file__).with_name("vit.safetensors"))


if __name__ == "__main__":
    main()
