"""Updates with a geometry: orthogonal to the residual, on a sphere, split at the mean. Run with torch 2.11.0: python geometry.py

Each class has its equation from the paper and, where named, from its code."""

import torch
import torch.nn.functional as F

from zoo import HEADS, HIDDEN, WIDTH, Strategy, write


class OrthogonalFeature(Strategy):
    """Oh et al. 2025, residual.py, `feature` over the last dimension. A large eps, so that it counts."""

    residual = "kind = 'orthogonal_update'\nover = 'feature'\neps = 0.1"
    control = "kind = 'orthogonal_update'\nover = 'feature'\neps = 1e-6"
    dims = (-1,)

    def join(self, net, s, site):
        f = net.branch(s, site)
        dot = (s * f).sum(self.dims, keepdim=True)
        square = (s * s).sum(self.dims, keepdim=True) + 0.1
        return s + (f - dot / square * s)


class OrthogonalGlobal(OrthogonalFeature):
    """The same over all that a sample has."""

    residual = "kind = 'orthogonal_update'\nover = 'global'\neps = 0.1"
    control = "kind = 'orthogonal_update'\nover = 'feature'\neps = 0.1"
    dims = (1, 2)


class MvSplit(Strategy):
    """dit.py: Z = R + beta V(T) + alpha (M(T) - M(R)), V(T) = T - M(T), under a norm on the sum."""

    residual = "kind = 'mv_split'\ninit = 0.03\nmean_init = 0.0"
    control = "kind = 'layer_scale'\ninit = 0.03"
    norm = "post"

    def shapes(self, site):
        return {"join.gamma": (WIDTH,), "join.alpha": (WIDTH,)}

    def join(self, net, s, site):
        beta, alpha = (net.p[f"{site.name}.join.{name}"] for name in ("gamma", "alpha"))
        f = net.branch(s, site)
        mean_f, mean_s = f.mean(1, keepdim=True), s.mean(1, keepdim=True)
        return s + beta * (f - mean_f) + alpha * (mean_f - mean_s)


class MvSplitPre(MvSplit):
    """x-transformers: the same under a norm before the branch."""

    norm = "pre"


class Ngpt(Strategy):
    """Loshchilov et al. 2024, model.py with use_nGPT = 1. A scale is stored * (init / (1 / sqrt(D))), s_u stored * init."""

    residual = "kind = 'ngpt'\ninit = 0.05\nquery_key_init = 0.8\nmlp_init = 0.3\nlogit_init = 2.0"
    control = "kind = 'ngpt'\ninit = 0.06\nquery_key_init = 0.8\nmlp_init = 0.3\nlogit_init = 2.0"
    norm = "none"

    def shapes(self, site):
        if site.kind == "mlp":
            return {"join.gamma": (WIDTH,), "inner.s_u": (HIDDEN,)}
        return {"join.gamma": (WIDTH,), "inner.s_qk": (HEADS, 1, WIDTH // HEADS)}

    def stream_shapes(self):
        return {"stream.scale": ()}

    def open(self, net, x):
        return F.normalize(x, dim=-1)

    def close(self, net, s):
        return s * (net.p["stream.scale"] * (2.0 / WIDTH**-0.5))

    def join(self, net, s, site):
        lr = torch.abs(net.p[f"{site.name}.join.gamma"] * (0.05 / WIDTH**-0.5))
        a, b = F.normalize(s, dim=-1), F.normalize(net.branch(s, site), dim=-1)
        return F.normalize(a + lr * (b - a), dim=-1)

    def qkv(self, net, q, k, v, h, site):
        s_qk = (net.p[f"{site.name}.inner.s_qk"] * (0.8 / WIDTH**-0.5)).view(1, HEADS, 1, WIDTH // HEADS)
        # The softmax's scale is sqrt(D/H) instead of 1 / sqrt(D/H).
        return s_qk * F.normalize(q, dim=-1) * (WIDTH // HEADS), s_qk * F.normalize(k, dim=-1), v

    def preactivation(self, net, u, h, site):
        return net.p[f"{site.name}.inner.s_u"] * (0.3 / 1.0 * WIDTH**0.5) * u


if __name__ == "__main__":
    write("orthogonal_update.feature", OrthogonalFeature())
    write("orthogonal_update.global", OrthogonalGlobal())
    write("mv_split", MvSplit())
    write("mv_split.pre", MvSplitPre())
    write("ngpt", Ngpt())
