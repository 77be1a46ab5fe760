"""What checkpoints cost, and how soon a run goes on from one.

    python experiments/checkpoints/measure.py [--steps 300]

Needs the built program (`cargo build`) and Fashion-MNIST; Python's standard library only. Prints a Markdown table.
1. One run of configs/depth48.toml's CPU profile with a checkpoint every 100 steps: the share of its time that went into them,
   from its own timing.json (a difference of two runs would drown in the noise of a shared machine).
2. depth48's full network (21 M parameters) is killed after its first checkpoints, then started five times: seconds from the
   start of the process to the moment when it can step, and to the end of its first step.
"""

import argparse
import json
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time
import tomllib

root = pathlib.Path(__file__).resolve().parent.parent.parent
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--program", default=str(root / "target" / "debug" / "reslab"))
arguments = parser.parse_args()
PLAIN = ["sweep", str(root / "configs" / "depth48.toml"), "--device", "cpu", "--arm", "plain", "--seeds", "0"]


def only(folder, pattern):
    (found,) = folder.glob(pattern)
    return found


def cost(folder):
    change = [f"train.steps={arguments.steps}", "train.checkpoint_every=100"]
    sets = [word for key in change for word in ("--set", key)]
    command = [arguments.program, *PLAIN, "--profile", "cpu", "--jobs", "1", "--out", str(folder), *sets]
    subprocess.run(command, check=True, capture_output=True)
    timing = json.loads(only(folder, "*/runs/*/timing.json").read_text())
    size = only(folder, "*/runs/*/checkpoint.safetensors").stat().st_size
    return 100 * timing["checkpoint_seconds"] / timing["seconds"], size


def resume(folder):
    change = ["train.precision=fp32", "train.batch=2", "train.steps=1000", "train.checkpoint_every=1"]
    sets = [word for key in change for word in ("--set", key)]
    command = [arguments.program, *PLAIN, "--profile", "none", "--threads", "2", "--out", str(folder), *sets]
    sweep = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(folder.glob("*/runs/*/checkpoint.prev.safetensors")):
        assert sweep.poll() is None, "the sweep ended too early"
        time.sleep(0.05)
    sweep.send_signal(signal.SIGKILL)
    sweep.wait()
    time.sleep(3)  # its run notices, saves and ends
    plan = only(folder, "*/plan.toml")
    run = next(run for run in tomllib.loads(plan.read_text())["run"] if run["arm"] == "plain" and run["seed"] == 0)
    command = [arguments.program, "exec-run", "--sweep", str(plan.parent), "--id", run["id"], "--device", "cpu"]
    ready, stepped = [], []
    for _ in range(5):
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "start":
                assert event["from_step"] > 0, "it did not go on from the checkpoint"
                ready.append(time.perf_counter() - began)
            if event["event"] == "step":
                stepped.append(time.perf_counter() - began)
                break
        process.kill()
        process.wait()
    return ready, stepped, run["parameters"], only(folder, "*/runs/*/checkpoint.safetensors").stat().st_size


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


with tempfile.TemporaryDirectory() as place:
    share, small = cost(pathlib.Path(place) / "cost")
    ready, stepped, parameters, large = resume(pathlib.Path(place) / "resume")
print("| figure | value |\n|---|---|")
print(f"| share of the time that went into a checkpoint every 100 steps, {small / 1e6:.0f} MB each | {share:.2f} % |")
print(f"| parameters, and size of the checkpoint, of the run that is resumed | {parameters:,}, {large / 1e6:.0f} MB |")
print(f"| seconds from process start until it can step, median and range of 5 | {spread(ready)} |")
print(f"| seconds from process start to the end of the first step | {spread(stepped)} |")
