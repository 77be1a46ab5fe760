"""What can only be checked on a machine with a CUDA device: one script, a few minutes.

    python experiments/gpu-check/check.py [--reslab target/debug/reslab] [--out DIR]

1. The device is found and opened at run time by the same program that runs on the CPU (`reslab doctor`).
2. Parity: parity.toml on CPU and GPU, all joins and drop-path modes; losses and gradient norms of every step agree.
3. Determinism: with `train.deterministic = true`, two GPU runs leave the same bytes.
4. bf16: the same runs under autocast stay near fp32, and are not equal to it (else autocast did nothing).
5. Resume: a run cut at its checkpoint goes on to the same losses.
6. Throughput and memory of the depth48 network in bf16 and fp32 (`reslab bench`).

Needs Python 3.10 with nothing installed, the built program, and its libtorch's CUDA set. Exit code 1 where a check fails.
"""

import argparse
import csv
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
root = here.parent.parent
parser = argparse.ArgumentParser()
parser.add_argument("--reslab", default=str(root / "target" / "debug" / "reslab"))
parser.add_argument("--out", default=None, help="keep the records here")
parser.add_argument("--device", default="cuda:0", help="'cpu' tries the script itself: CPU against CPU, without bf16 and bench")
arguments = parser.parse_args()
out = pathlib.Path(arguments.out or tempfile.mkdtemp(prefix="gpu-check-"))
failures = []


def reslab(*words, check=True):
    return subprocess.run([arguments.reslab, *map(str, words)], check=check, capture_output=True, text=True, cwd=root)


def sweep(name, *words):
    folder = out / name
    reslab("sweep", here / "parity.toml", "--out", folder, *words)
    return next(path.parent for path in folder.glob("*/plan.toml"))


def rows(folder, file="steps.csv"):
    """{arm: rows} of a sweep's CSV files; the arm is the start of the run folder's name."""
    found = {}
    for path in sorted(folder.glob(f"runs/*/{file}")):
        with open(path, newline="") as lines:
            found[path.parent.name.split("-s0-")[0]] = list(csv.DictReader(lines))
    return found


def judge(name, holds, figure):
    print(f"{'ok    ' if holds else 'FAILED'} {name}: {figure}", flush=True)
    if not holds:
        failures.append(name)


def farthest(a, b, column):
    """Largest relative difference of a column over all arms and steps."""
    a, b = rows(a), rows(b)
    assert a.keys() == b.keys() and all(len(a[arm]) == len(b[arm]) for arm in a), "the sweeps have other runs"
    pairs = [(float(x[column]), float(y[column])) for arm in a for x, y in zip(a[arm], b[arm])]
    return max(abs(x - y) / max(abs(x), 1e-12) for x, y in pairs)


doctor = reslab("doctor", check=False)
print(doctor.stdout)
cuda = arguments.device != "cpu"
judge("the device is found", arguments.device in doctor.stdout, "see above")
if failures:
    sys.exit("no CUDA device: nothing else can be checked; `cargo setup --cuda` installs libtorch's CUDA set")

cpu = sweep("cpu", "--device", "cpu")
gpu = sweep("gpu", "--device", arguments.device)
for column, most in [("loss", 1e-3), ("grad_norm", 2e-2)]:
    far = farthest(cpu, gpu, column)
    judge(f"parity of {column} on CPU and GPU", far < most, f"largest relative difference {far:.1e}, at most {most}")

again = sweep("again", "--device", arguments.device)
for file in ["evals.csv", "layers.csv", "done.json"]:
    pairs = list(zip(sorted(gpu.glob(f"runs/*/{file}")), sorted(again.glob(f"runs/*/{file}"))))
    same = all(a.read_bytes() == b.read_bytes() for a, b in pairs)
    judge(f"deterministic: {file} of two GPU sweeps", same and len(pairs) == 6, f"{len(pairs)} pairs compared")

if cuda:
    bf16 = sweep("bf16", "--device", arguments.device, "--set", "train.precision=bf16", "--set", "train.deterministic=false")
    far = farthest(gpu, bf16, "loss")
    judge("bf16 stays near fp32 and is not equal to it", 1e-6 < far < 5e-2, f"largest relative difference {far:.1e}")

cut = out / "resumed" / gpu.name
shutil.copytree(gpu, cut)
for done in cut.glob("runs/*/done.json"):
    done.unlink()  # as if killed before its end: goes on from the checkpoint of step 10
reslab("sweep", here / "parity.toml", "--out", cut.parent, "--device", arguments.device)
far = farthest(gpu, cut, "loss")
judge("a resumed run", far == 0.0, f"largest relative difference {far:.1e}")

for precision in ["fp32", "bf16"] if cuda else []:
    words = ["bench", root / "configs" / "depth48.toml", "--profile", "none", "--device", arguments.device, "--arm", "plain"]
    words += ["--arm", "drop_path", "--set", f"train.precision={precision}", "--json"]
    found = reslab(*words, check=False)
    judge(f"bench in {precision}", found.returncode == 0, found.stderr.strip()[-300:])
    if found.returncode == 0:
        print(json.dumps(json.loads(found.stdout), indent=1))

print(f"records: {out}")
sys.exit(f"{len(failures)} checks failed: {', '.join(failures)}" if failures else 0)
