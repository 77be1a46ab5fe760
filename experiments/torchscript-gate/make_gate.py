"""Writes a join for `residual = { kind = "torchscript", path = "gate.pt" }`: a module `forward(residual, branch_output)`
that gives what is added to the residual. Needs torch alone (2.11.0 is what reslab links).

    python make_gate.py gate --width 64 --out gate.pt       # reslab's input_gate, one gate per token
    python make_gate.py layer_scale --width 64 --out layer_scale.pt
    python make_gate.py scale --out scale.pt                # one scale for the whole branch, for any width
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Gate(nn.Module):
    """gamma * sigmoid(w2 GELU(w1 LN(x)) + bias) * f(x), `gain` at step 0. LN has no parameters."""

    def __init__(self, width: int, hidden: int, gain: float):
        super().__init__()
        self.width = width
        self.w1 = nn.Parameter(nn.init.trunc_normal_(torch.empty(hidden, width), std=0.02))
        self.w2 = nn.Parameter(torch.zeros(1, hidden))
        self.bias = nn.Parameter(torch.zeros(1))
        # The parameter of this name is the join's gamma in layers.csv and in the plots.
        self.gamma = nn.Parameter(torch.tensor(2 * gain))

    def forward(self, residual: torch.Tensor, branch_output: torch.Tensor) -> torch.Tensor:
        hidden = F.gelu(F.linear(F.layer_norm(residual, [self.width], eps=1e-6), self.w1))
        return self.gamma * torch.sigmoid(F.linear(hidden, self.w2, self.bias)) * branch_output


class LayerScale(nn.Module):
    """gamma * f(x) per channel, `gain` at step 0."""

    def __init__(self, width: int, gain: float):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((width,), gain))

    def forward(self, residual: torch.Tensor, branch_output: torch.Tensor) -> torch.Tensor:
        return self.gamma * branch_output


class Scale(nn.Module):
    """gamma * f(x) with one gamma, `gain` at step 0."""

    def __init__(self, gain: float):
        super().__init__()
        self.gamma = nn.Parameter(torch.tensor(gain))

    def forward(self, residual: torch.Tensor, branch_output: torch.Tensor) -> torch.Tensor:
        return self.gamma * branch_output


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("module", choices=["gate", "layer_scale", "scale"])
    parser.add_argument("--width", type=int, default=64, help="width of the network")
    parser.add_argument("--hidden", type=int, default=16, help="hidden width of the gate")
    parser.add_argument("--gain", type=float, default=0.1, help="factor on the branch at step 0")
    parser.add_argument("--seed", type=int, default=0, help="of the gate's w1, which is the same at every site and run")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    module = {"gate": lambda: Gate(options.width, options.hidden, options.gain),
              "layer_scale": lambda: LayerScale(options.width, options.gain),
              "scale": lambda: Scale(options.gain)}[options.module]()
    torch.jit.script(module).save(options.out)
    print(f"{options.out}: {sum(p.numel() for p in module.parameters())} parameters per join")


if __name__ == "__main__":
    main()
