"""Scales of the branch, and inits that need no norm. Run with torch 2.11.0: python scales.py

Each class has its equation from the paper and, where named, from its code. L blocks have 2 L branches."""

import math

from zoo import DEPTH, WIDTH, Strategy, write


class ReZero(Strategy):
    """Bachlechner et al. 2020: x + alpha F(x), no norm."""

    residual = "kind = 'rezero'"
    norm = "none"

    def shapes(self, site):
        return {"join.gamma": ()}

    def join(self, net, s, site):
        return s + net.p[f"{site.name}.join.gamma"] * net.branch(s, site)


class SkipInit(ReZero):
    """De and Smith 2020: the same with another init, here before a norm."""

    residual = "kind = 'skip_init'\ninit = 'depth'"
    norm = "pre"


class FixedScale(Strategy):
    residual = "kind = 'fixed_scale'\nvalue = 0.3"
    control = "kind = 'fixed_scale'\nvalue = 0.301"

    def join(self, net, s, site):
        return s + 0.3 * net.branch(s, site)


class ResScale(Strategy):
    """MetaFormerBlock: res_scale(x) + layer_scale(F(norm(x)))."""

    residual = "kind = 'res_scale'\nresidual_init = 1.0\ninit = 0.1"
    control = "kind = 'layer_scale'\ninit = 0.1"

    def shapes(self, site):
        return {"join.residual_scale": (WIDTH,), "join.gamma": (WIDTH,)}

    def join(self, net, s, site):
        scale, gamma = (net.p[f"{site.name}.join.{name}"] for name in ("residual_scale", "gamma"))
        return s * scale + gamma * net.branch(s, site)


class ResScaleAlone(ResScale):
    """CAFormer: res_scale alone."""

    residual = "kind = 'res_scale'\nresidual_init = 1.0\ninit = 'none'"
    control = "kind = 'plain'"

    def shapes(self, site):
        return {"join.residual_scale": (WIDTH,)}

    def join(self, net, s, site):
        return s * net.p[f"{site.name}.join.residual_scale"] + net.branch(s, site)


class DepthScale(Strategy):
    """x + c F(x)."""

    def __init__(self, preset, c, keys=""):
        self.residual = f"kind = 'depth_scale'\npreset = '{preset}'\nmultiplier = 1.5\n{keys}"
        self.control = self.residual.replace("1.5", "1.0")
        self.c = 1.5 * c

    def join(self, net, s, site):
        return s + self.c * net.branch(s, site)


class LayerNormScaling(Strategy):
    """modeling_llama.py, LNS: the normed input of attention and of the MLP times 1 / sqrt(layer_index + 1)."""

    residual = "kind = 'layer_norm_scaling'"

    def join(self, net, s, site):
        return s + net.body(net.pre_norm(s, site) * (1 / math.sqrt(site.block + 1)), site)


class TFixup(Strategy):
    """Huang et al. 2020: x + F(x) without norms; the rest is init, which the weights here replace."""

    residual = "kind = 't_fixup'\ngain = 0.67"
    control = "kind = 'fixed_scale'\nvalue = 0.9"
    norm = "none"


class Fixup(Strategy):
    """Zhang et al. 2019, rule 3: a scalar bias before each linear layer and each activation, a scalar scale."""

    residual = "kind = 'fixup'\nattention_layers = 4"
    control = "kind = 'rezero'"
    norm = "none"

    def shapes(self, site):
        inner = ("out_bias",) if site.kind == "attention" else ("gelu_bias", "fc2_bias")
        return {"join.gamma": (), "join.bias": (), **{f"inner.{name}": () for name in inner}}

    def join(self, net, s, site):
        return s + net.p[f"{site.name}.join.gamma"] * net.body(s + net.p[f"{site.name}.join.bias"], site)

    def attended(self, net, a, h, site):
        return a + net.p[f"{site.name}.inner.out_bias"]

    def preactivation(self, net, u, h, site):
        return u + net.p[f"{site.name}.inner.gelu_bias"]

    def hidden(self, net, u, h, site):
        return u + net.p[f"{site.name}.inner.fc2_bias"]


if __name__ == "__main__":
    write("rezero", ReZero())
    write("skip_init", SkipInit())
    write("fixed_scale", FixedScale())
    write("res_scale", ResScale())
    write("res_scale.none", ResScaleAlone())
    write("depth_scale.inverse_sqrt", DepthScale("inverse_sqrt", 1 / math.sqrt(2 * DEPTH)))
    write("depth_scale.inverse", DepthScale("inverse", 1 / (2 * DEPTH)))
    write("depth_scale.depth_mup", DepthScale("depth_mup", 1 / math.sqrt(2 * DEPTH)))
    write("depth_scale.complete_p", DepthScale("complete_p", (DEPTH / 2) ** -0.7, "base_depth = 2\nalpha = 0.7"))
    write("layer_norm_scaling", LayerNormScaling())
    write("t_fixup", TFixup())
    write("fixup", Fixup())
