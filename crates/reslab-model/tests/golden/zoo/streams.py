"""Several streams, memory of earlier blocks, and maps of the residual. Run with torch 2.11.0: python streams.py"""

import torch
import torch.nn.functional as F

from zoo import WIDTH, Strategy, write


def rms_norm(x, weight=None, eps=1e-6):
    y = x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()
    return y if weight is None else y * weight


class Streams(Strategy):
    """n copies, summed at the end. The stream is [B, N, n D]; inside it is handled as [B, N, n, D]."""

    n = 3

    def open(self, net, x):
        return torch.cat([x] * self.n, -1)

    def close(self, net, s):
        return sum(s.split(WIDTH, -1))

    def mixed(self, s, read, mix, write, branch):
        """read [.., n], mix [.., n, n] (row: which stream it makes), write [.., n]."""
        x = s.unflatten(-1, (self.n, WIDTH))
        h = torch.einsum("...s,...sd->...d", read, x)
        y = torch.einsum("...ts,...sd->...td", mix, x) + torch.einsum("...t,...d->...td", write, branch(h))
        return y.flatten(-2)


class HyperConnections(Streams):
    """lucidrains/hyper-connections: alpha [s, 1 + t] there is transposed here, beta is the last row."""

    residual = "kind = 'hyper_connections'\nstreams = 3\ndynamic = true\nscale = 0.01"
    control = "kind = 'hyper_connections'\nstreams = 3\ndynamic = false\nscale = 0.0"

    def shapes(self, site):
        return {"join.static": (self.n + 2, self.n), "join.dynamic": (self.n + 2, WIDTH), "join.norm.weight": (WIDTH,),
                "join.scale": (2,)}

    def join(self, net, s, site):
        p = {name: net.p[f"{site.name}.join.{name}"] for name in ("static", "dynamic", "norm.weight", "scale")}
        normed = rms_norm(s.unflatten(-1, (self.n, WIDTH)), p["norm.weight"])
        static_alpha, static_beta = p["static"][:-1].T, p["static"][-1]
        alpha = torch.tanh(normed @ p["dynamic"][:-1].T) * p["scale"][0] + static_alpha  # [B, N, s, 1 + t]
        beta = torch.tanh(normed @ p["dynamic"][-1]) * p["scale"][1] + static_beta  # [B, N, s]
        return self.mixed(s, alpha[..., 0], alpha[..., 1:].transpose(-1, -2), beta, lambda h: net.branch(h, site))


class StaticHyperConnections(Streams):
    residual = "kind = 'hyper_connections'\nstreams = 3\ndynamic = false\nscale = 0.0"

    def shapes(self, site):
        return {"join.static": (self.n + 2, self.n)}

    def join(self, net, s, site):
        static = net.p[f"{site.name}.join.static"]
        return self.mixed(s, static[0], static[1:-1], static[-1], lambda h: net.branch(h, site))


class Mhc(Streams):
    """mHC, eq. (7) to (9). 3 rounds, so that their order and number count."""

    residual = "kind = 'mhc'\nstreams = 3\niterations = 3\nscale = 0.01\nmixing = 0.1"
    control = "kind = 'mhc'\nstreams = 3\niterations = 1\nscale = 0.01\nmixing = 0.1"

    def shapes(self, site):
        rows = 2 * self.n + self.n**2
        return {"join.w": (rows, self.n * WIDTH), "join.base": (rows,), "join.scale": (3,)}

    def join(self, net, s, site):
        n, (w, base, scale) = self.n, (net.p[f"{site.name}.join.{name}"] for name in ("w", "base", "scale"))
        x = rms_norm(s)
        pre, post, res = ((x @ w_i.T) * scale_i + b_i for w_i, b_i, scale_i in
                          zip(w.split([n, n, n * n]), base.split([n, n, n * n]), scale))
        m = res.unflatten(-1, (n, n)).exp()
        for _ in range(3):
            m = m / m.sum(-2, keepdim=True)
            m = m / m.sum(-1, keepdim=True)
        return self.mixed(s, torch.sigmoid(pre), m, 2 * torch.sigmoid(post), lambda h: net.branch(h, site))


class AttentionResiduals(Strategy):
    """block_attn_res of figure 2, over every output. The site behind a join owns its query there, the join here."""

    residual = "kind = 'attention_residuals'"

    def shapes(self, site):
        return {"join.query": (WIDTH,), "join.norm.weight": (WIDTH,)}

    def open(self, net, x):
        net.memory["values"] = [x]
        return x

    def join(self, net, s, site):
        net.memory["values"].append(net.branch(s, site))
        values = torch.stack(net.memory["values"])
        keys = rms_norm(values, net.p[f"{site.name}.join.norm.weight"])
        logits = torch.einsum("d,ibnd->ibn", net.p[f"{site.name}.join.query"], keys)
        return torch.einsum("ibn,ibnd->bnd", logits.softmax(0), values)


class ValueResidual(Strategy):
    residual = "kind = 'value_residual'\nfirst = 0.5\nown = 0.5\nlearned = true"

    def shapes(self, site):
        return {"inner.lambdas": (2,)} if site.kind == "attention" and site.block > 0 else {}

    def lambdas(self, net, site):
        return net.p[f"{site.name}.inner.lambdas"]

    def qkv(self, net, q, k, v, h, site):
        first = net.memory.setdefault("values", v)
        if site.block > 0:
            lambda_1, lambda_2 = self.lambdas(net, site)
            v = lambda_1 * first + lambda_2 * v
        return q, k, v


class FixedValueResidual(ValueResidual):
    residual = "kind = 'value_residual'\nfirst = 0.4\nown = 0.6\nlearned = false"

    def shapes(self, site):
        return {}

    def lambdas(self, net, site):
        return 0.4, 0.6


class X0Lambda(Strategy):
    residual = ("kind = 'x0_lambda'\nresidual_first = 1.15\nresidual_last = 1.05\n"
                "embedding_first = 0.2\nembedding_last = 0.05")

    def shapes(self, site):
        return {"join.rho": (), "join.lambda": ()} if site.kind == "attention" else {}

    def init(self, name, shape):
        return super().init(name, shape) + (1.0 if name.endswith("rho") else 0.3)

    def open(self, net, x):
        net.memory["x0"] = x
        return x

    def join(self, net, s, site):
        if site.kind == "attention":
            s = net.p[f"{site.name}.join.rho"] * s + net.p[f"{site.name}.join.lambda"] * net.memory["x0"]
        return s + net.branch(s, site)


class Laurel(Strategy):
    """Eq. (5)."""

    residual = "kind = 'laurel'\nrank = 2\nweights = 'free'"
    control = "kind = 'laurel'\nrank = 0\nweights = 'free'"

    def shapes(self, site):
        return {"join.gamma": (), "join.beta": (), "join.a": (2, WIDTH), "join.b": (WIDTH, 2)}

    def init(self, name, shape):
        return super().init(name, shape) + (1.0 if name.endswith("beta") else 0.0)

    def join(self, net, s, site):
        alpha, beta, a, b = (net.p[f"{site.name}.join.{name}"] for name in ("gamma", "beta", "a", "b"))
        return alpha * net.branch(s, site) + beta * (s @ (b @ a).T + s)


class SoftmaxLaurel(Strategy):
    residual = "kind = 'laurel'\nrank = 0\nweights = 'softmax'"

    def shapes(self, site):
        return {"join.weights": (2,)}

    def join(self, net, s, site):
        alpha, beta = 2 * net.p[f"{site.name}.join.weights"].softmax(0)
        return alpha * net.branch(s, site) + beta * s


class DeepDelta(Strategy):
    """DeepDeltaResidualVdim1.forward of deep-delta-learning: k by rms_norm with eps / D, then over sqrt(D)."""

    residual = "kind = 'deep_delta'\ninitial_beta = 0.1\nvalue_scale = 4.0"

    def shapes(self, site):
        return {f"join.{part}.{name}": shape for part in ("beta", "value")
                for name, shape in (("weight", (1, WIDTH)), ("bias", (1,)))}

    def join(self, net, s, site):
        def linear(x, part):
            return F.linear(x, *(net.p[f"{site.name}.join.{part}.{name}"] for name in ("weight", "bias")))

        context = net.pre_norm(s, site)
        k = F.rms_norm(net.body(context, site), [WIDTH], eps=1e-5**2 / WIDTH) / WIDTH**0.5
        beta = 2 * torch.sigmoid(linear(context, "beta"))
        v = 4 * torch.sigmoid(linear(s, "value"))
        return s + beta * k * (v - (k * s).sum(-1, keepdim=True))


class TorchScript(Strategy):
    """The module that comes with reslab: one scale per join. tests/torchscript.rs of reslab-residual has larger ones."""

    residual = "kind = 'torchscript'\npath = 'built-in'"

    def shapes(self, site):
        return {"join.gamma": ()}

    def join(self, net, s, site):
        return s + net.p[f"{site.name}.join.gamma"] * net.branch(s, site)


if __name__ == "__main__":
    write("hyper_connections.dynamic", HyperConnections())
    write("hyper_connections.static", StaticHyperConnections())
    write("mhc", Mhc())
    write("attention_residuals", AttentionResiduals())
    write("value_residual.learned", ValueResidual())
    write("value_residual.fixed", FixedValueResidual())
    write("x0_lambda", X0Lambda())
    write("laurel.low_rank", Laurel())
    write("laurel.softmax", SoftmaxLaurel())
    write("deep_delta", DeepDelta())
    write("torchscript", TorchScript())
