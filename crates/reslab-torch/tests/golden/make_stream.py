"""Writes stream.json: the first draws of three random streams, from the definition in src/stream.rs.

Standard library only: sha256 from hashlib, ChaCha with 8 rounds written out here. Run: python make_stream.py > stream.json
"""

import hashlib
import json
import math
import struct

STREAMS = [(0, "order", [0]), (1, "init/head.weight", []), (2**64 - 1, "drop_path", [7, 2**40])]


def key(seed, purpose, position):
    text = b"reslab stream 1\0" + struct.pack("<QQ", seed, len(purpose)) + purpose.encode()
    return hashlib.sha256(text + struct.pack(f"<{len(position)}Q", *position)).digest()


def rotate(x, by):
    return ((x << by) | (x >> (32 - by))) & 0xFFFFFFFF


def quarter(s, a, b, c, d):
    for x, y, z, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        s[x] = (s[x] + s[y]) & 0xFFFFFFFF
        s[z] = rotate(s[z] ^ s[x], by)


def block(seed, counter):
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *struct.unpack("<8I", seed)]
    start += [counter & 0xFFFFFFFF, counter >> 32, 0, 0]
    s = list(start)
    for _ in range(4):
        for column in range(4):
            quarter(s, column, 4 + column, 8 + column, 12 + column)
        for diagonal in range(4):
            quarter(s, diagonal, 4 + (diagonal + 1) % 4, 8 + (diagonal + 2) % 4, 12 + (diagonal + 3) % 4)
    return [(a + b) & 0xFFFFFFFF for a, b in zip(s, start)]


def uniforms(seed, count):
    words = [word for counter in range(count // 8) for word in block(seed, counter)]
    draws = [low | (high << 32) for low, high in zip(words[::2], words[1::2])]
    return [draw >> 11 for draw in draws]  # integers, since a reader of JSON may round a float's last bit


def normals(u):
    u = [x * 2.0**-53 for x in u]
    pairs = [(math.sqrt(-2.0 * math.log(1.0 - a)), math.tau * b) for a, b in zip(u[::2], u[1::2])]
    return [value for radius, angle in pairs for value in (radius * math.cos(angle), radius * math.sin(angle))]


def golden(seed, purpose, position):
    u = uniforms(key(seed, purpose, position), 24)
    return {"seed": str(seed), "purpose": purpose, "position": position, "uniform_2_53": u, "normal": normals(u)}


print(json.dumps([golden(*arguments) for arguments in STREAMS], indent=1))
