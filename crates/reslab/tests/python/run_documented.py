"""Runs the lines of docs/records.md that load a sweep's files, and compares what they give with table.csv.

    python run_documented.py docs/records.md results/lr_grid-cpu     (from the folder that holds results/)
"""

import math
import re
import sys

import duckdb
import pandas as pd


def block(page, language):
    found = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    assert len(found) == 1, f"{len(found)} blocks of {language}"
    assert len(found[0].splitlines()) == 4, "four lines"
    return found[0]


page = open(sys.argv[1]).read()
table = pd.read_csv(f"{sys.argv[2]}/table.csv").set_index("arm")
loaded = {}
exec(block(page, "python"), loaded)
steps, finals = loaded["steps"], loaded["finals"]
means = finals.groupby("arm")["test/top1"].mean()
assert set(means.index) == set(table.index)
for arm, mean in means.items():
    assert math.isclose(mean, table.loc[arm, "test/top1_mean"], rel_tol=1e-12), arm
assert len(finals) == table["done"].sum() and steps.groupby(["arm", "seed"]).ngroups == len(finals)
assert steps.dtypes[["step", "loss", "grad_norm_gamma"]].astype(str).tolist() == ["int64", "float64", "float64"]
for folder, name in [(dir, name) for _, dir in loaded["runs"] for name in ["evals.csv", "layers.csv.gz"]]:
    assert len(pd.read_csv(folder / name)) > 0

database = duckdb.connect()
database.execute(block(page, "sql"))
top1 = database.execute('SELECT arm, avg(metrics."test/top1") FROM runs GROUP BY arm').fetchall()
losses = database.execute("SELECT arm, seed, loss FROM last_losses").fetchall()
assert all(math.isclose(mean, table.loc[arm, "test/top1_mean"], rel_tol=1e-12) for arm, mean in top1)
last = steps.sort_values("step").groupby(["arm", "seed"])["loss"].last()
assert len(losses) == len(last) and all(last[arm, seed] == loss for arm, seed, loss in losses)
print(f"{len(steps)} steps of {len(finals)} runs")
