"""Mean |gamma| over joins and seeds, by arm and step, from results/init_sweep (layers.csv or layers.csv.gz).

python experiments/init_sweep/gamma.py results/init_sweep
"""
import collections
import csv
import gzip
import pathlib
import re
import sys

STEPS = [0, 10, 20, 50, 100, 190]


def rows(run):
    plain, packed = run / "layers.csv", run / "layers.csv.gz"
    with open(plain, newline="") if plain.exists() else gzip.open(packed, "rt", newline="") as file:
        yield from csv.DictReader(file)


figures = collections.defaultdict(list)
for run in sorted(pathlib.Path(sys.argv[1], "runs").iterdir()):
    optimizer, init = re.match(r"(\w+_[\de-]+)_init=([\de.-]+)_-s\d+", run.name).groups()
    for row in rows(run):
        if int(row["step"]) in STEPS:
            figures[optimizer, float(init), int(row["step"])].append(float(row["gamma_abs"]))

mean = {key: sum(values) / len(values) for key, values in figures.items()}
optimizers = sorted({key[0] for key in mean})
inits = sorted({key[1] for key in mean}, reverse=True)
print("| optimizer and rate | init | " + " | ".join(f"step {step}" for step in STEPS) + " |")
print("|---|---:|" + "---:|" * len(STEPS))
for optimizer in optimizers:
    for init in inits:
        cells = " | ".join(f"{mean[optimizer, init, step]:.2e}" for step in STEPS)
        print(f"| {optimizer.replace('_', ' ')} | {init:.0e} | {cells} |")
print()
for optimizer in optimizers:
    last = {init: mean[optimizer, init, STEPS[-1]] for init in inits}
    tiny = [last[init] for init in (1e-4, 1e-5, 1e-6)]
    print(f"{optimizer.replace('_', ' ')}: at step {STEPS[-1]} largest over smallest |gamma| of inits 1e-4, 1e-5, 1e-6: {max(tiny) / min(tiny):.3f}; "
          f"1e-4 over 1e-6: {last[1e-4] / last[1e-6]:.3f}")
