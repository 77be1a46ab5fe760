"""Recomputes a sweep's table.csv from its other files with pandas and SciPy, by the definitions of docs/records.md.

    python recompute_tables.py results/lr_grid-cpu

Reads plan.toml, done.json, steps.csv and layers.csv of every run; nothing of reslab's code is used. Ends with the number of
figures that agree, or with those that do not. Before that, one figure of one run is changed: that must be seen.
"""

import itertools
import json
import math
import pathlib
import sys

import numpy as np
import pandas as pd
from scipy import stats

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib


def read_csv(folder, name):
    path = folder / f"{name}.csv"
    return pd.read_csv(path if path.exists() else folder / f"{name}.csv.gz")


def read_runs(sweep, plan):
    """A row per run: what was planned, and its figures."""
    rows = []
    for run in plan["run"]:
        folder = sweep / run["folder"]
        done = json.loads((folder / "done.json").read_text())
        axes = run.get("axis", [])
        is_point = lambda axis: axis["grid"] or axis["key"] in plan["select"]
        point = tuple((axis["key"], axis["value"]) for axis in axes if is_point(axis))
        shown = ",".join(f"{axis['label']}={axis['value']}" for axis in axes if not is_point(axis))
        base = run["family"] + (f"[{shown}]" if shown else "")
        metrics = {name: float(value) for name, value in done["metrics"].items()}
        figures = step_figures(read_csv(folder, "steps"), done)
        ratio = last_third_ratio(read_csv(folder, "layers"))
        rows.append(
            {"arm": run["arm"], "base": base, "point": point, "seed": run["seed"], "parameters": run["parameters"]}
            | figures | {"update_ratio": ratio} | metrics
        )
    return pd.DataFrame(rows)


def step_figures(steps, done):
    loss, norm = steps["loss"], steps["grad_norm"]
    smooth = loss.rolling(20, min_periods=1).mean()
    high = smooth > loss.iloc[0] + 0.1
    # Length of the stretch of high steps that each step ends.
    stretch = high.groupby((~high).cumsum()).cumsum()
    diverged = done["outcome"] != "finished" or not np.isfinite(smooth).all() or stretch.max() >= 50
    classes = done["num_classes"]
    final = smooth.iloc[-1]
    return {
        "diverged": bool(diverged),
        "not_trained": bool(not diverged and final > 0.95 * math.log(classes)),
        "final_loss": math.log(classes) if diverged else final,
        "largest_grad_norm": norm.max() if np.isfinite(norm).all() else math.inf,
        "spike_score": spike_share(loss),
        "grad_spike_score": spike_share(norm),
        "classes": classes,
    }


def spike_share(values):
    before = values.rolling(128)
    limit = (before.mean() + 6 * before.std()).shift(1)
    judged = limit.notna()
    return (values > limit)[judged].mean() if judged.any() else math.nan


def last_third_ratio(layers):
    depth = layers["block"].max() + 1
    first = min(-(-2 * depth // 3), depth - 1)
    last = layers[(layers["step"] == layers["step"].max()) & (layers["block"] >= first)]
    return last["ratio"].mean()


def score(runs, metric):
    """The metric; chance where a run diverged."""
    figure = metric.split("/")[-1]
    classes = runs["classes"]
    chance = np.log(classes) if figure == "loss" else int(figure[3:]) / classes
    return runs[metric].mask(runs["diverged"], chance)


def cell(values, diverged):
    """Mean, lower and upper end, n: the 95 % interval of Student's t, of two values their range."""
    values = np.asarray(values, float)
    n, low, high = len(values), math.nan, math.nan
    if n == 2 and not any(diverged):
        low, high = values.min(), values.max()
    elif n > 2 and not any(diverged):
        low, high = stats.t.interval(0.95, n - 1, loc=values.mean(), scale=stats.sem(values))
    return {"mean": values.mean() if n else math.nan, "low": low, "high": high, "n": n}


def pairs(arm, other, metric):
    """arm - other by seed, and whether one of the two diverged; two diverged runs differ by 0, since both score chance."""
    scored = [runs.assign(score=score(runs, metric))[["seed", "score", "diverged"]] for runs in (arm, other)]
    both = scored[0].merge(scored[1], on="seed", suffixes=("", "_other"))
    return both["score"] - both["score_other"], both["diverged"] | both["diverged_other"]


def sign_flip(differences):
    """Two-sided p by enumeration of all 2^n signs; SciPy's permutation test says the same."""
    d = np.asarray(differences, float)
    sums = np.array([abs(np.dot(signs, d)) for signs in itertools.product([-1, 1], repeat=len(d))])
    p = np.mean(sums >= abs(d.sum()) - 1e-9 * np.abs(d).sum())
    scipy = stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert math.isclose(p, scipy.pvalue), (p, scipy.pvalue)
    return p


def holm(p):
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate((len(p) - np.arange(len(p))) * np.asarray(p)[order]), 1)
    return adjusted


def recompute(plan, runs):
    """Rows like those of table.csv: a dictionary of figures by arm."""
    metric, baseline = plan["metric"], plan["baseline"]
    validation = "val/" + metric.split("/")[1]
    groups = {arm: group for arm, group in runs.groupby("arm", sort=False)}
    rows = {}
    for arm, group in groups.items():
        row = rows[arm] = {"done": len(group), "diverged": group["diverged"].sum(),
                           "not_trained": group["not_trained"].sum(), "parameters": group["parameters"].iloc[0]}
        for name in dict.fromkeys([metric, validation]):
            put(row, name, cell(score(group, name), group["diverged"]))
        put(row, "final_loss", cell(group["final_loss"], group["diverged"]))
        row["largest_grad_norm"] = group["largest_grad_norm"].max()
        for name in ["spike_score", "grad_spike_score", "update_ratio"]:
            row[name] = group[name].mean()
        other = same_point(groups, baseline, group["point"].iloc[0])
        if other is not None and group["base"].iloc[0] != baseline:
            put(row, "difference", cell(*pairs(group, other, metric)))
    chosen = choose(groups, rows, validation) if plan["select"] else list(groups)
    if plan["select"]:
        for arm in groups:
            rows[arm]["selected"] = int(arm in chosen)
    compare(plan, groups, rows, chosen)
    return rows


def put(row, name, figures):
    row.update({f"{name}_{end}": value for end, value in figures.items()})


def same_point(groups, base, point):
    found = [g for g in groups.values() if g["base"].iloc[0] == base and g["point"].iloc[0] == point]
    return found[0] if found else None


def choose(groups, rows, validation):
    """The arm's point that is best on validation; a tie goes to the first. All axes of these sweeps' grids are chosen."""
    sign = -1 if validation.endswith("loss") else 1
    best = {}
    for arm, group in groups.items():
        base, value = group["base"].iloc[0], sign * rows[arm][f"{validation}_mean"]
        if base not in best or value > best[base][0]:
            best[base] = (value, arm)
    return [arm for _, arm in best.values()]


def compare(plan, groups, rows, chosen):
    metric, baseline = plan["metric"], plan["baseline"]
    compared, p = [], []
    for arm in chosen:
        group = groups[arm]
        if group["base"].iloc[0] == baseline:
            continue
        partner = [groups[other] for other in chosen if groups[other]["base"].iloc[0] == baseline
                   and (plan["select"] or groups[other]["point"].iloc[0] == group["point"].iloc[0])][0]
        d, diverged = pairs(group, partner, metric)
        if plan["select"]:
            put(rows[arm], "selected_difference", cell(d, diverged))
        rows[arm]["p_above_baseline"] = np.mean((d > 0) + 0.5 * (d == 0))
        compared.append(arm)
        p.append(sign_flip(d))
    for arm, raw, adjusted in zip(compared, p, holm(p)):
        rows[arm] |= {"sign_flip_p": raw, "holm_p": adjusted}


def differences(table, rows):
    """What in the table is not as recomputed, and how many figures were compared."""
    wrong, compared = [], 0
    for arm, row in rows.items():
        for column, value in row.items():
            recorded, value = float(table.loc[arm, column]), float(value)
            compared += 1
            is_same = math.isclose(recorded, value, rel_tol=1e-9, abs_tol=1e-12)
            if not (is_same or math.isnan(recorded) and math.isnan(value)):
                wrong.append(f"{arm}: {column} is {recorded} in table.csv, recomputed {value}")
    return wrong, compared


def main():
    sweep = pathlib.Path(sys.argv[1])
    plan = tomllib.loads((sweep / "plan.toml").read_text())
    table = pd.read_csv(sweep / "table.csv").set_index("arm")
    runs = read_runs(sweep, plan)
    assert list(table.index) == list(dict.fromkeys(runs["arm"])), "the rows are the arms, in the plan's order"
    # Negative control: a thousandth more accuracy in one run of the last arm is seen, in its mean at least.
    other = runs.copy()
    other.loc[other.index[-1], plan["metric"]] += 1e-3
    seen, _ = differences(table, recompute(plan, other))
    assert any(f"{plan['metric']}_mean" in line for line in seen), seen
    wrong, compared = differences(table, recompute(plan, runs))
    print("\n".join(wrong) or f"{compared} figures of {len(table)} arms agree")
    sys.exit(bool(wrong))


main()
