"""The strategies that the zoo began with. Run with torch 2.11.0: python foundation.py"""

import torch
import torch.nn.functional as F

from zoo import WIDTH, Strategy, write


class Plain(Strategy):
    control = "kind = 'layer_scale'\ninit = 0.5"


class LayerScale(Strategy):
    """Touvron et al. 2021, eq. (2)."""

    residual = "kind = 'layer_scale'\ninit = 0.1"

    def shapes(self, site):
        return {"join.gamma": (WIDTH,)}

    def join(self, net, s, site):
        return s + net.p[f"{site.name}.join.gamma"] * net.branch(s, site)


class InputGate(Strategy):
    """c * sigmoid(w2 GELU(w1 LN(x)) + b) per channel."""

    residual = "kind = 'input_gate'\nhidden = 5\ninitial_gain = 0.1\noutput = 'channel'"

    def shapes(self, site):
        return {"join.w1": (5, WIDTH), "join.w2": (WIDTH, 5), "join.bias": (WIDTH,), "join.gamma": ()}

    def join(self, net, s, site):
        w1, w2, bias, gamma = (net.p[f"{site.name}.join.{name}"] for name in ("w1", "w2", "bias", "gamma"))
        hidden = F.gelu(F.linear(F.layer_norm(s, (WIDTH,), eps=1e-6), w1))
        return s + gamma * torch.sigmoid(F.linear(hidden, w2, bias)) * net.branch(s, site)


if __name__ == "__main__":
    write("plain", Plain())
    write("layer_scale", LayerScale())
    write("input_gate.channel", InputGate())
