"""Means over all joins of what `reslab inspect` wrote: rms of gamma, and the update ratio.

python experiments/finetune_gamma/means.py results/finetune_pretrain/inspect results/finetune_gamma/inspect/*
"""
import csv
import pathlib
import sys

print("| network | mean rms of gamma | mean update ratio, attention | mean update ratio, MLP |")
print("|---|---:|---:|---:|")
for folder in map(pathlib.Path, sys.argv[1:]):
    with open(folder / "inspect.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    mean = lambda column, branch: sum(float(r[column]) for r in rows if branch in ("", r["branch"])) / sum(branch in ("", r["branch"]) for r in rows)
    name = "pretrained" if folder.name == "inspect" else f"{folder.name}, fine-tuned"
    print(f"| {name} | {mean('gamma_rms', ''):.4f} | {mean('ratio', 'attention'):.4f} | {mean('ratio', 'mlp'):.4f} |")
