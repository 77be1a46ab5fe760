"""Strategies that place norms, or scale the residual under one. Run with torch 2.11.0: python norms.py"""

import torch.nn.functional as F

from zoo import DEPTH, EPS, HIDDEN, WIDTH, Strategy, write


def norm_shapes(name, width=WIDTH):
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


class DeepNorm(Strategy):
    """Wang et al. 2022 (DeepNet), figure 2: LN(alpha x + f(x)), alpha = (2 N)^(1/4) for an encoder of N layers."""

    residual = "kind = 'deep_norm'\nalpha_exponent = 0.25\nbeta_exponent = 0.25\nxavier = true"
    control = "kind = 'deep_norm'\nalpha_exponent = 0.0\nbeta_exponent = 0.25\nxavier = true"
    norm = "post"

    def join(self, net, s, site):
        return (2 * DEPTH) ** 0.25 * s + net.branch(s, site)


class SubLn(Strategy):
    """Magneto as torchscale has it: norms before the output projection and before fc2."""

    residual = "kind = 'sub_ln'\ngain_exponent = 0.5\nxavier = true"

    def shapes(self, site):
        return norm_shapes("inner.norm", WIDTH if site.kind == "attention" else HIDDEN)

    def attended(self, net, a, h, site):
        return net.layer_norm(a, f"{site.name}.inner.norm")

    def hidden(self, net, u, h, site):
        return net.layer_norm(u, f"{site.name}.inner.norm")


class Sandwich(Strategy):
    """x + LN(f(LN(x))), the block's own norms."""

    residual = "kind = 'sandwich'\nembedding_norm = false"
    control = "kind = 'layer_scale'\ninit = 0.5"
    norm = "both"


class SandwichEmbedding(Sandwich):
    residual = "kind = 'sandwich'\nembedding_norm = true"
    control = "kind = 'sandwich'\nembedding_norm = false"

    def stream_shapes(self):
        return norm_shapes("stream.embedding_norm")

    def open(self, net, x):
        return net.layer_norm(x, "stream.embedding_norm")


class ResPostNorm(Strategy):
    """Swin V2's block: x + LN(f(x)), and one LN at the end."""

    residual = "kind = 'res_post_norm'\ninit = 0.1"
    norm = "none"

    def shapes(self, site):
        return {"join.gamma": (WIDTH,), "join.bias": (WIDTH,)}

    def stream_shapes(self):
        return norm_shapes("stream.norm")

    def join(self, net, s, site):
        weight, bias = net.p[f"{site.name}.join.gamma"], net.p[f"{site.name}.join.bias"]
        return s + F.layer_norm(net.branch(s, site), (WIDTH,), weight, bias, EPS)

    def close(self, net, s):
        return net.layer_norm(s, "stream.norm")


class Admin(Strategy):
    """LN(x * omega + f(x)). How omega is measured is tested in crates/reslab-residual/tests/norms.rs."""

    residual = "kind = 'admin'"
    norm = "post"

    def shapes(self, site):
        return {"join.omega": (WIDTH,)}

    def init(self, name, shape):
        return super().init("gamma", shape)

    def join(self, net, s, site):
        return s * net.p[f"{site.name}.join.omega"] + net.branch(s, site)


class ResiDual(Strategy):
    """microsoft/ResiDual's encoder: x is post-norm, res the sum of the embedding and all branches."""

    residual = "kind = 'resi_dual'\nalpha = 0.7"
    control = "kind = 'resi_dual'\nalpha = 0.0"
    norm = "none"

    def shapes(self, site):
        return norm_shapes("join.norm")

    def stream_shapes(self):
        return norm_shapes("stream.norm")

    def open(self, net, x):
        return x, x

    def join(self, net, s, site):
        x, res = s
        f = net.branch(x, site)
        return net.layer_norm(x + f, f"{site.name}.join.norm"), res + f

    def close(self, net, s):
        x, res = s
        return 0.7 * x + net.layer_norm(res, "stream.norm")


class Keel(Strategy):
    """vit-pytorch's: LN(out + residual * number of branches), the first branch without either."""

    residual = "kind = 'keel'\nalpha_exponent = 1.0"
    control = "kind = 'keel'\nalpha_exponent = 0.0"
    norm = "none"

    def shapes(self, site):
        return {**norm_shapes("join.norm"), **(norm_shapes("join.post_norm") if site.index > 0 else {})}

    def join(self, net, s, site):
        f = net.branch(net.layer_norm(s, f"{site.name}.join.norm"), site)
        if site.index == 0:
            return s + f
        return net.layer_norm(f + s * (2 * DEPTH), f"{site.name}.join.post_norm")


if __name__ == "__main__":
    write("deep_norm", DeepNorm())
    write("sub_ln", SubLn())
    write("sandwich", Sandwich())
    write("sandwich.embedding", SandwichEmbedding())
    write("res_post_norm", ResPostNorm())
    write("admin", Admin())
    write("resi_dual", ResiDual())
    write("keel", Keel())
