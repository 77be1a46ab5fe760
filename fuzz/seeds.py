"""Writes what fuzzing starts from into fuzz/corpus/: files that are right, so that changes of them are nearly right.

python3 fuzz/seeds.py
"""

import gzip
import hashlib
import json
import math
import pathlib
import shutil
import struct

HERE = pathlib.Path(__file__).parent


def seed(target, name, data):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def idx():
    images = struct.pack(">4I", 0x803, 7, 2, 3) + bytes(range(42))
    labels = struct.pack(">2I", 0x801, 7) + bytes([0, 1, 2, 3, 0, 1, 2])
    for name, pack in [("plain", bytes), ("gzip", lambda data: gzip.compress(data, mtime=0))]:
        pair = pack(images), pack(labels)
        seed("idx", name, bytes([7]) + struct.pack(">H", len(pair[0])) + b"".join(pair))


def cifar():
    for labels, layout in [(1, 0), (2, 1)]:
        records = b"".join(bytes([n] * labels) + bytes([n] * 3072) for n in range(2))
        first = bytes([2 << 1 | layout])
        seed("cifar", f"plain{labels}", first + records)
        seed("cifar", f"gzip{labels}", first + gzip.compress(records, mtime=0))


def checkpoint():
    """A header of one tensor of three zeros; its length and the zeros are put in by the target."""

    def field(data):
        return struct.pack("<Q", len(data)) + data

    fields = [struct.pack("<Q", 3), b"c", struct.pack("<Q", 0), b"a", b"U8 [3]", bytes(3)]
    checksum = hashlib.sha256(b"".join(map(field, fields))).hexdigest()
    meta = {"config_sha256": "c", "reslab_format": "1", "sha256": checksum, "step": "3"}
    header = {"__metadata__": meta, "a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}}
    text = json.dumps(header, separators=(",", ":")).encode()
    seed("checkpoint", "header", bytes([1, 3]) + text)
    seed("checkpoint", "whole", bytes([0, 0]) + struct.pack("<Q", len(text)) + text + bytes(3))


def pretrained():
    """Headers of small networks of every layout; their lengths and zeros are put in by the target."""
    for path in sorted((HERE.parent / "crates/reslab-pretrained/tests/keys").glob("small_*.tsv")):
        header, start = {}, 0
        for line in path.read_text().splitlines()[1:]:
            key, shape = line.split("\t")
            shape = [int(size) for size in shape.split("x")]
            for block in "01" if "{2}" in key else "0":
                end = start + 2 * math.prod(shape)
                header[key.replace("{2}", block)] = {"dtype": "F16", "shape": shape, "data_offsets": [start, end]}
                start = end
        text = json.dumps(header, separators=(",", ":")).encode()
        seed("pretrained", path.stem, bytes([1]) + struct.pack(">H", start) + text)


def sweep_file():
    for path in sorted((HERE.parent / "configs").rglob("*.toml")):
        text = path.read_text().replace('extends = "base/', 'extends = "')
        seed("sweep_file", path.name, f"--set optim.lr=1e-3\n{text}".encode())
        seed("sweep_file", "set-" + path.name, b"--set seeds=[3]\n" + text.encode())


def image():
    for path in sorted((HERE.parent / "crates/reslab-image/tests/golden").iterdir()):
        if path.suffix in [".jpg", ".png", ".webp"] and path.stat().st_size < 4000:
            seed("image", path.name, path.read_bytes())


shutil.rmtree(HERE / "corpus", ignore_errors=True)
for make in [idx, cifar, checkpoint, pretrained, sweep_file, image]:
    make()
