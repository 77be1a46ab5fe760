"""Training throughput of reslab beside PyTorch eager + timm: interleaved processes, ratios of neighbours.

    python experiments/throughput/compare.py [--rounds 5] [--threads 2]

Needs a Python with torch 2.11.0 and timm 1.0, and the built program (`cargo build`). Each round runs timm_step.py and then
`reslab bench` on throughput.toml, each in a process of its own with the same threads, while nothing else runs. Timings on
a shared machine swing by a third; the ratio within a round does so much less, and the median over rounds is quoted.
Prints a Markdown table.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
root = here.parent.parent
parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--reslab", default=str(root / "target" / "debug" / "reslab"))
arguments = parser.parse_args()
ARMS = ["plain", "subset", "telemetry"]


def timm():
    command = [sys.executable, str(here / "timm_step.py"), "--steps", str(arguments.steps), "--threads", str(arguments.threads)]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return 64 / statistics.median(figures["seconds_per_step"]), figures["peak_memory_bytes"], figures["parameters"]


def reslab():
    command = [arguments.reslab, "bench", str(here / "throughput.toml"), "--json", "--device", "cpu"]
    command += ["--rounds", "3", "--steps", str(arguments.steps), "--threads", str(arguments.threads)]
    for arm in ARMS:
        command += ["--arm", arm]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=root).stdout)
    return {figures["arm"]: figures for figures in report["arms"]}


def row(name, values, unit=""):
    return f"| {name} | {statistics.median(values):.3g}{unit} | {min(values):.3g} to {max(values):.3g} |"


speed, memory, subset, telemetry, plain_speed = [], [], [], [], []
for number in range(arguments.rounds):
    timm_speed, timm_memory, parameters = timm()
    arms = reslab()
    assert arms["plain"]["parameters"] == parameters, "the two networks differ"
    plain_speed.append(arms["plain"]["images_per_s"])
    speed.append(plain_speed[-1] / timm_speed)
    memory.append(arms["plain"]["peak_memory_bytes"] / timm_memory)
    subset.append(arms["subset"]["speed_over_first"])
    telemetry.append(100 * (1 / arms["telemetry"]["speed_over_first"] - 1))
    print(f"round {number + 1}: {speed[-1]:.2f} x timm, subset {subset[-1]:.2f} x, telemetry {telemetry[-1]:+.1f} %", file=sys.stderr)

print(f"{arguments.rounds} rounds, {arguments.threads} threads, {parameters:,} parameters\n")
print("| figure | median | range over rounds |\n|---|---|---|")
print(row("images/s of reslab, plain", plain_speed))
print(row("reslab plain / PyTorch eager + timm, images/s", speed, " x"))
print(row("drop path 0.3, mode subset / plain, images/s", subset, " x"))
print(row("time added by telemetry every 10 steps", telemetry, " %"))
print(row("peak memory of reslab / of timm", memory, " x"))
