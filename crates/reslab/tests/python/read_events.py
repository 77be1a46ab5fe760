"""Reads a sweep's event files with the tensorboard package, and compares every point with the CSV files.

    python read_events.py results/tiny

Ends with the number of points, or with what does not agree: a missing, double or different point is an error.
"""

import csv
import gzip
import json
import math
import pathlib
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ALL = {"scalars": 0, "histograms": 0, "tensors": 0}
STEP_TAGS = {
    "train/loss": "loss", "train/lr": "lr", "train/grad_norm": "grad_norm", "train/weight_update_norm": "weight_update_norm",
    "grad_norm/attention": "grad_norm_attention", "grad_norm/mlp": "grad_norm_mlp", "grad_norm/gamma": "grad_norm_gamma",
    "grad_norm/embedding": "grad_norm_embedding", "grad_norm/head": "grad_norm_head",
}


def read(folder):
    events = EventAccumulator(str(folder), size_guidance=ALL)
    events.Reload()
    return events


def rows(folder, name):
    path = folder / f"{name}.csv"
    file = open(path) if path.exists() else gzip.open(folder / f"{name}.csv.gz", "rt")
    with file:
        return list(csv.DictReader(file))


def float32(x):
    return struct.unpack("f", struct.pack("f", float(x)))[0]


def expected(folder):
    """Scalars as (step, value) by tag, and histograms as (step, row) by tag."""
    scalars, histograms = {}, {}
    put = lambda into, tag, row, value: into.setdefault(tag, []).append((int(row["step"]), value))
    for row in rows(folder, "steps"):
        for tag, column in STEP_TAGS.items():
            if row[column] != "":
                put(scalars, tag, row, float32(row[column]))
    for row in rows(folder, "evals"):
        suffix = "_ema" if row["weights"] == "ema" else ""
        for figure in ["loss", "top1", "top5"]:
            put(scalars, f"{row['split']}/{figure}{suffix}", row, float32(row[figure]))
    for row in rows(folder, "layers"):
        join = f"block_{int(row['block']):02}_{row['branch']}"
        for tag, column in [("update_ratio", "ratio"), ("gate_mean", "gate_mean")]:
            if row[column] != "":
                put(scalars, f"{tag}/{join}", row, float32(row[column]))
        if row["gamma_mean"] != "" and row["gate_mean"] == "":
            put(histograms, f"gamma/{join}", row, row)
    done = json.loads((folder / "done.json").read_text())
    for name, value in done["metrics"].items():
        scalars[f"final/{name}"] = [(done["steps"] - 1, float32(value))]
    return scalars, histograms


def same(a, b):
    return a == b or math.isnan(a) and math.isnan(b)


def check_run(folder, events):
    scalars, histograms = expected(folder)
    tags = events.Tags()
    assert set(tags["scalars"]) == set(scalars), set(tags["scalars"]) ^ set(scalars)
    assert set(tags["histograms"]) == set(histograms), set(tags["histograms"]) ^ set(histograms)
    points = 0
    for tag, want in scalars.items():
        got = [(event.step, event.value) for event in events.Scalars(tag)]
        assert len(got) == len(want) and all(g[0] == w[0] and same(g[1], w[1]) for g, w in zip(got, want)), (tag, got, want)
        points += len(got)
    seconds = {int(row["step"]): float(row["seconds"]) for row in rows(folder, "steps")}
    assert all(event.wall_time == seconds[event.step] for event in events.Scalars("train/loss"))
    for tag, want in histograms.items():
        got = [(event.step, event.histogram_value) for event in events.Histograms(tag)]
        assert [step for step, _ in got] == [step for step, _ in want], tag
        for (_, h), (_, row) in zip(got, want):
            check_histogram(h, {end: float(row[f"gamma_{end}"]) for end in ["min", "max", "mean", "rms"]})
        points += len(got)
    return points


def check_histogram(h, gamma):
    assert (h.min, h.max, h.sum) == (gamma["min"], gamma["max"], gamma["mean"])
    assert math.isclose(h.sum_squares, gamma["rms"] ** 2, rel_tol=1e-12) and h.num == 1
    assert math.isclose(sum(h.bucket), 1) and list(h.bucket_limit) == sorted(h.bucket_limit)
    lefts = [h.min, *h.bucket_limit[:-1]]
    mean = sum(n * (left + right) / 2 for n, left, right in zip(h.bucket, lefts, h.bucket_limit))
    assert math.isclose(mean, gamma["mean"], rel_tol=1e-6, abs_tol=1e-6 * (h.max - h.min)), (mean, gamma)


def number(word):
    try:
        return float(word)
    except ValueError:
        return word


def check_hparams(run, events):
    content = events.PluginTagToContent("hparams")
    start = metadata.parse_session_start_info_plugin_data(content[metadata.SESSION_START_INFO_TAG])
    got = {name: value.number_value if value.HasField("number_value") else value.string_value
           for name, value in start.hparams.items()}
    axes = run.get("axis", [])
    shown = ",".join(f"{axis['label']}={axis['value']}" for axis in axes if not axis["grid"])
    arm = run["family"] + (f"[{shown}]" if shown else "")
    assert got == {"arm": arm, "seed": run["seed"], **{axis["key"]: number(axis["value"]) for axis in axes}}, got
    end = metadata.parse_session_end_info_plugin_data(content[metadata.SESSION_END_INFO_TAG])
    assert end.status == 1, end
    return got


def main():
    sweep = pathlib.Path(sys.argv[1])
    plan = tomllib.loads((sweep / "plan.toml").read_text())
    board = sweep / "tensorboard"
    points, seen = 0, {}
    for run in plan["run"]:
        folder = sweep / run["folder"]
        events = read(board / folder.name)
        points += check_run(folder, events)
        for name, value in check_hparams(run, events).items():
            seen.setdefault(name, set()).add(value)
    content = read(board).PluginTagToContent("hparams")[metadata.EXPERIMENT_TAG]
    experiment = metadata.parse_experiment_plugin_data(content)
    assert (experiment.name, experiment.description) == (plan["name"], plan["question"])
    known = {info.name: {number(str(value)) for value in info.domain_discrete} for info in experiment.hparam_infos}
    assert known == seen, (known, seen)
    metrics = [info.name.tag for info in experiment.metric_infos]
    assert metrics[0] == f"final/{plan['metric']}" and len(set(metrics)) == len(metrics), metrics
    print(f"{points} points of {len(plan['run'])} runs agree")


main()
