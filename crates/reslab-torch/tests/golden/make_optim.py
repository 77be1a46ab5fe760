"""Writes optim.json: 20 steps of torch.optim.AdamW and torch.optim.SGD in double precision (torch 2.11.0).

Three parameters in two groups (with and without weight decay), gradients from formulas that the Rust test repeats in the
same double precision, and a learning rate that changes at every step. Run: python make_optim.py > optim.json
"""

import json
import math

import torch

SHAPES = {"weight": [3, 4], "bias": [4], "gamma": []}
STEPS = 20


def value(index, element):
    """Initial value of one element of parameter number `index`."""
    return math.sin(1.0 + 3.0 * index + element)


def gradient(step, index, element):
    return math.cos(0.7 * step + 1.3 * index + 0.31 * element) * (1.0 + 0.1 * step)


def learning_rate(step):
    return 0.02 * (1.0 + 0.5 * math.sin(step))


def filled(shape, function):
    count = math.prod(shape)
    return torch.tensor([function(element) for element in range(count)], dtype=torch.float64).reshape(shape)


def run(make):
    tensors = {
        name: filled(shape, lambda element, index=index: value(index, element)).requires_grad_()
        for index, (name, shape) in enumerate(SHAPES.items())
    }
    optimizer = make([
        {"params": [tensors["weight"]], "weight_decay": 0.5},
        {"params": [tensors["bias"], tensors["gamma"]], "weight_decay": 0.0},
    ])
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        for index, tensor in enumerate(tensors.values()):
            tensor.grad = filled(list(tensor.shape), lambda element: gradient(step, index, element))
        optimizer.step()
    return {name: tensor.detach().flatten().tolist() for name, tensor in tensors.items()}


def adamw(groups):
    return torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.99), eps=1e-3, foreach=False, fused=False)


def sgd(groups):
    return torch.optim.SGD(groups, lr=1.0, momentum=0.9)


def plain_sgd(groups):
    return torch.optim.SGD(groups, lr=1.0)


assert torch.__version__.startswith("2.11.0"), torch.__version__
print(json.dumps({"adamw": run(adamw), "sgd": run(sgd), "plain_sgd": run(plain_sgd)}, indent=1))
