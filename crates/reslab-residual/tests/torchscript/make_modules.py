"""Modules for tests/torchscript.rs: the good ones of experiments/torchscript-gate/make_gate.py, and some that the strategy
must refuse, each for one reason. It also writes the module that comes with reslab, modules/scale.pt. Run with torch 2.11.0:
python make_modules.py"""

import io
import sys
import zipfile
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[3] / "experiments/torchscript-gate"))
from make_gate import Gate, LayerScale, Scale  # noqa: E402


class Base(nn.Module):
    def __init__(self, dtype=torch.float32, trains=True):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones((), dtype=dtype), requires_grad=trains)


class OneArgument(Base):
    def forward(self, branch_output):
        return self.gamma * branch_output


class Pair(Base):
    def forward(self, residual, branch_output):
        return self.gamma * branch_output, residual


class Buffer(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, residual, branch_output):
        return self.gamma * branch_output + self.mean


class OtherShape(Base):
    def forward(self, residual, branch_output):
        return self.gamma * branch_output.mean(1)


class OtherType(Base):
    def forward(self, residual, branch_output):
        return (self.gamma * branch_output).double()


class OtherDevice(Base):
    def forward(self, residual, branch_output):
        return self.gamma * branch_output + torch.ones([1], device="meta")


class Random(Base):
    def forward(self, residual, branch_output):
        return torch.nn.functional.dropout(self.gamma * branch_output, 0.5, self.training)


class Good(Base):
    def forward(self, residual, branch_output):
        return self.gamma * branch_output


class Unused(Base):
    def __init__(self):
        super().__init__()
        self.idle = nn.Parameter(torch.ones(()))

    def forward(self, residual, branch_output):
        return self.gamma * branch_output


class NoBranch(Base):
    def forward(self, residual, branch_output):
        return self.gamma * residual


class GammaMatrix(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(4, 4))

    def forward(self, residual, branch_output):
        return branch_output @ self.gamma


MODULES = {"one_argument": OneArgument(), "pair": Pair(), "buffer": Buffer(), "other_shape": OtherShape(),
           "other_type": OtherType(), "other_device": OtherDevice(), "random": Random(), "half": Good(torch.float16),
           "frozen": Good(trains=False), "unused": Unused(), "no_branch": NoBranch(), "gamma_matrix": GammaMatrix()}


def save(module, path):
    """Without the records of where the source stood: they name folders of this machine."""
    whole = io.BytesIO()
    torch.jit.save(torch.jit.script(module), whole)
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(path, "w") as target:
        for entry in source.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                target.writestr(zipfile.ZipInfo(entry.filename), source.read(entry))


for name, module in MODULES.items():
    save(module, HERE / f"{name}.pt")
torch.manual_seed(0)
save(Gate(width=4, hidden=5, gain=0.1), HERE / "gate.pt")
save(Gate(width=16, hidden=5, gain=0.1), HERE / "gate_16.pt")
save(LayerScale(width=4, gain=0.3), HERE / "layer_scale.pt")
save(Scale(gain=0.1), HERE.parents[1] / "modules/scale.pt")
