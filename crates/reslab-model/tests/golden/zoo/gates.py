"""Gates that read the residual or the branch. Run with torch 2.11.0: python gates.py"""

import torch
import torch.nn.functional as F

from zoo import EPS, HEADS, WIDTH, Strategy, write


def own(net, site, *names):
    return [net.p[f"{site.name}.join.{name}"] for name in names]


class Highway(Strategy):
    """Srivastava et al. 2015, eq. (3): H T + x (1 - T)."""

    residual = "kind = 'highway'\nbias = -2.0"

    def shapes(self, site):
        return {"join.weight": (WIDTH, WIDTH), "join.bias": (WIDTH,)}

    def join(self, net, s, site):
        t = torch.sigmoid(F.linear(s, *own(net, site, "weight", "bias")))
        return net.branch(s, site) * t + s * (1 - t)


class Gtrxl(Strategy):
    """Parisotto et al. 2019, section 3.2. Stacked matrices: w of y (r, z, g), u of x (r, z)."""

    def __init__(self, mode, relu):
        self.mode, self.relu = mode, relu
        bias = 0.0 if mode == "input" else 2.0
        table = f"kind = 'gtrxl'\nmode = '{mode}'\nbias = {bias}\nrelu = "
        self.residual, self.control = (table + str(on).lower() for on in (relu, not relu))

    def shapes(self, site):
        count = {"sigmoid_tanh": 2, "gru": 3}.get(self.mode, 1)
        shapes = {"join.w": (count * WIDTH, WIDTH)}
        if self.mode == "gru":
            shapes |= {"join.u": (2 * WIDTH, WIDTH), "join.u_g": (WIDTH, WIDTH)}
        return shapes if self.mode == "input" else shapes | {"join.bias": (WIDTH,)}

    def join(self, net, x, site):
        y = net.branch(x, site)
        y = torch.relu(y) if self.relu else y
        w = own(net, site, "w")[0].split(WIDTH)
        b = own(net, site, "bias")[0] if self.mode != "input" else None
        if self.mode == "input":
            return torch.sigmoid(x @ w[0].T) * x + y
        if self.mode == "output":
            return x + torch.sigmoid(x @ w[0].T - b) * y
        if self.mode == "highway":
            g = torch.sigmoid(x @ w[0].T + b)
            return g * x + (1 - g) * y
        if self.mode == "sigmoid_tanh":
            return x + torch.sigmoid(y @ w[0].T - b) * torch.tanh(y @ w[1].T)
        u_r, u_z = own(net, site, "u")[0].split(WIDTH)
        r = torch.sigmoid(y @ w[0].T + x @ u_r.T)
        z = torch.sigmoid(y @ w[1].T + x @ u_z.T - b)
        h = torch.tanh(y @ w[2].T + (r * x) @ own(net, site, "u_g")[0].T)
        return (1 - z) * x + z * h


class LerpGate(Strategy):
    """hyper-connections' GatedResidual: x.lerp(residual, sigmoid(linear(cat(x, residual)))), x the branch."""

    def __init__(self, output):
        self.outputs = 1 if output == "scalar" else WIDTH
        self.residual = f"kind = 'lerp_gate'\noutput = '{output}'\nbias = 0.0"

    def shapes(self, site):
        return {"join.weight": (self.outputs, 2 * WIDTH), "join.bias": (self.outputs,)}

    def join(self, net, s, site):
        f = net.branch(s, site)
        mix = F.linear(torch.cat([f, s], -1), *own(net, site, "weight", "bias"))
        return f.lerp(s, mix.sigmoid())


class AdaptiveLayerScale(Strategy):
    """x-transformers': out * to_gamma(condition).sigmoid(), the condition computed from the residual."""

    def __init__(self, condition):
        other = {"token": "mean", "mean": "token"}[condition]
        self.condition = condition
        self.residual, self.control = (
            f"kind = 'adaptive_layer_scale'\ncondition = '{c}'\nbias = -2.0" for c in (condition, other))

    def shapes(self, site):
        return {"join.weight": (WIDTH, WIDTH), "join.bias": (WIDTH,)}

    def join(self, net, s, site):
        c = s.mean(1, keepdim=True) if self.condition == "mean" else s
        gamma = F.linear(F.layer_norm(c, (WIDTH,), eps=EPS), *own(net, site, "weight", "bias")).sigmoid()
        return s + net.branch(s, site) * gamma


class GatedAttention(Strategy):
    """qiuzh20's Qwen3Attention: attn_output [B, N, H, D/H] * sigmoid(gate_score), before o_proj."""

    def __init__(self, output):
        self.output = output
        self.residual = f"kind = 'gated_attention'\noutput = '{output}'"

    def shapes(self, site):
        outputs = HEADS if self.output == "headwise" else WIDTH
        return {"inner.weight": (outputs, WIDTH)} if site.kind == "attention" else {}

    def attended(self, net, a, h, site):
        b, n, d = a.shape
        score = h @ net.p[f"{site.name}.inner.weight"].T
        score = score.reshape(b, n, HEADS, 1 if self.output == "headwise" else d // HEADS)
        return (a.reshape(b, n, HEADS, d // HEADS) * torch.sigmoid(score)).reshape(b, n, d)


class SeGate(Strategy):
    """Hu et al. 2017, eq. (2) to (4): s = sigmoid(W2 relu(W1 z)), z the mean of the branch."""

    residual = "kind = 'se_gate'\nreduction = 4"

    def shapes(self, site):
        return {"join.w1": (WIDTH // 4, WIDTH), "join.w2": (WIDTH, WIDTH // 4)}

    def join(self, net, s, site):
        w1, w2 = own(net, site, "w1", "w2")
        u = net.branch(s, site)
        z = u.mean(1)
        scale = torch.sigmoid(torch.relu(z @ w1.T) @ w2.T)
        return s + scale[:, None] * u


if __name__ == "__main__":
    write("highway", Highway())
    for gate in ("input", "output", "highway", "sigmoid_tanh", "gru"):
        write(f"gtrxl.{gate}", Gtrxl(gate, relu=gate != "output"))
    for output in ("scalar", "channel"):
        write(f"lerp_gate.{output}", LerpGate(output))
    for condition in ("token", "mean"):
        write(f"adaptive_layer_scale.{condition}", AdaptiveLayerScale(condition))
    for output in ("headwise", "elementwise"):
        write(f"gated_attention.{output}", GatedAttention(output))
    write("se_gate", SeGate())
