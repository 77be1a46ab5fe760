"""What Pillow, torchvision and timm make of small images: writes the other files of this folder.

Run in a Python that has pillow, torchvision and timm: python make_golden.py
Versions that made the committed files are in golden.json. Expected images are PNG, which loses nothing; those of equal size stand
one under the other in one file.
"""

import io
import json
from pathlib import Path

import numpy as np
import PIL
import timm
import torch
import torchvision
import torchvision.transforms.functional as F
from PIL import Image, ImageDraw
from timm.data import auto_augment as aa
from torchvision.transforms import InterpolationMode

HERE = Path(__file__).parent
BICUBIC = InterpolationMode.BICUBIC
FILL = (124, 116, 104)  # timm's for ImageNet's mean


def photo(width, height, seed):
    """Smooth areas, edges and grain, as a photograph has them; not using the whole range, so that autocontrast shows."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    waves = [np.sin(x / (3 + 2 * c) + c) + np.cos(y / (4 + c)) for c in range(3)]
    pixels = np.stack([120 + 38 * w for w in waves], axis=-1) + rng.normal(0, 6, (height, width, 3))
    image = Image.fromarray(np.clip(pixels, 12, 235).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    draw.ellipse([width * 0.1, height * 0.2, width * 0.5, height * 0.8], fill=(200, 60, 40))
    draw.line([0, height - 1, width - 1, 0], fill=(30, 180, 90), width=2)
    return image


def stack(images, name):
    Image.fromarray(np.concatenate([np.asarray(i.convert("RGB")) for i in images])).save(HERE / name, optimize=True)


def resizing():
    source = photo(64, 48, 1)
    source.save(HERE / "photo.png", optimize=True)
    cases = []
    for number, (top, left, height, width, size) in enumerate(
        [(0, 0, 48, 64, 24), (3, 5, 31, 17, 32), (10, 20, 8, 9, 40), (0, 0, 48, 64, 100), (7, 0, 41, 3, 16)]
    ):
        name = f"resized_{number}.png"
        resized = F.resized_crop(source, top, left, height, width, [size, size], BICUBIC)
        resized.save(HERE / name, optimize=True)
        # Pillow 13 resizes the columns first where that is less work; before, it always began with the rows.
        rows = F.resized_crop(source, top, left, height, width, [height, size], BICUBIC)
        is_rows_first = rows.resize((size, size), Image.Resampling.BICUBIC).tobytes() == resized.tobytes()
        cases.append(dict(region=[top, left, height, width], size=size, rows_first=is_rows_first, file=name))
    return cases


def evaluation():
    """timm's evaluation transform: the shorter side to floor(size / crop_pct), then the centre."""
    cases = []
    for number, (width, height, size, ratio) in enumerate(
        [(64, 48, 24, 0.875), (64, 48, 32, 1.0), (48, 64, 31, 0.9), (50, 50, 28, 0.95), (100, 20, 32, 0.875)]
    ):
        source = photo(width, height, 10 + number)
        source.save(HERE / f"eval_{number}_source.png", optimize=True)
        transform = timm.data.transforms_factory.transforms_imagenet_eval(
            img_size=size, crop_pct=ratio, interpolation="bicubic", normalize=False
        )
        pixels = transform(source)
        assert pixels.dtype == torch.uint8, "pixels as they are"
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(HERE / f"eval_{number}.png", optimize=True)
        cases.append(dict(source=f"eval_{number}_source.png", size=size, crop_ratio=ratio, file=f"eval_{number}.png"))
    return cases


def planes():
    """Grey images, as the sets in memory have them."""
    cases = []
    for side, size in [(28, 32), (8, 16), (28, 14), (32, 48)]:
        grey = np.asarray(photo(side, side, side).convert("L"))
        grey = np.where(grey < 110, 0, grey).astype(np.uint8)  # black around, as digits have it
        resized = np.asarray(F.resize(Image.fromarray(grey), [size, size], BICUBIC))
        cases.append(dict(side=side, size=size, source=grey.ravel().tolist(), expected=resized.ravel().tolist()))
    return cases


def files():
    """The same photograph in the formats and modes that folders of images hold, and what Pillow reads from them."""
    source = photo(45, 37, 3)  # no multiple of a JPEG's blocks
    alpha = source.copy()
    alpha.putalpha(Image.fromarray(np.tile(np.linspace(0, 255, 45).astype(np.uint8), (37, 1))))
    kinds = {
        "q90_444.jpg": (source, dict(quality=90, subsampling=0)),
        "q85_420.jpg": (source, dict(quality=85, subsampling=2)),
        "q85_422.jpg": (source, dict(quality=85, subsampling=1)),
        "progressive.jpg": (source, dict(quality=85, progressive=True)),
        "grey.jpg": (source.convert("L"), dict(quality=90)),
        "cmyk.jpg": (source.convert("CMYK"), dict(quality=90)),
        "rgb.png": (source, {}),
        "grey.png": (source.convert("L"), {}),
        "grey_alpha.png": (alpha.convert("LA"), {}),
        "alpha.png": (alpha, {}),
        "palette.png": (source.quantize(32), {}),
        "bits.png": (source.convert("1"), {}),
        "lossless.webp": (source, dict(lossless=True)),
        "alpha.webp": (alpha, dict(lossless=True, exact=True)),
        "lossy.webp": (source, dict(quality=85)),
    }
    for name, (image, options) in kinds.items():
        image.save(HERE / name, **options)
    stack([Image.open(HERE / name).convert("RGB") for name in kinds], "decoded.png")
    return list(kinds)


def operations():
    """timm's operations at several levels; a sign that timm draws is forced both ways."""
    source = photo(24, 20, 5)
    source.save(HERE / "op_source.png", optimize=True)
    images, cases = [], []
    for increasing in [False, True]:
        names = aa._RAND_INCREASING_TRANSFORMS if increasing else aa._RAND_TRANSFORMS
        for number, name in enumerate(names):
            for magnitude in [0.0, 3.3, 9.0, 10.0]:
                for negative in [False, True]:
                    aa._randomly_negate = lambda v, negative=negative: -v if negative else v
                    hparams = dict(img_mean=FILL, interpolation=Image.Resampling.BICUBIC)
                    op = aa.AugmentOp(name, prob=1.0, magnitude=magnitude, hparams=hparams)
                    try:
                        result = op(source)
                    except ValueError:  # 0 bits: Pillow 13 refuses what it used to answer with black
                        result = source.point(lambda value: 0)
                    cases.append(dict(op=number, name=name, increasing=increasing, magnitude=magnitude, negative=negative))
                    images.append(result)
    # Equal neighbours (most operations have no sign, and several no level) are kept once.
    kept = []
    for case, image in zip(cases, images):
        same = [k for k, other in enumerate(kept) if other.tobytes() == image.tobytes()]
        case["image"] = same[0] if same else len(kept)
        if not same:
            kept.append(image)
    stack(kept, "operations.png")
    return cases


def equal_pixels():
    """Images on which a histogram has one entry, or few: equalize and autocontrast leave the first as it is."""
    flat = Image.new("RGB", (4, 3), (7, 0, 255))
    few = Image.fromarray(np.arange(4 * 3 * 3, dtype=np.uint8).reshape(3, 4, 3) * 7)
    pairs = []
    for image in [flat, few]:
        for name in ["AutoContrast", "Equalize"]:
            result = aa.NAME_TO_OP[name](image)
            pairs.append(
                dict(name=name, source=np.asarray(image).ravel().tolist(), expected=np.asarray(result).ravel().tolist())
            )
    return pairs


if __name__ == "__main__":
    golden = dict(
        versions=dict(pillow=PIL.__version__, torchvision=torchvision.__version__, timm=timm.__version__),
        fill=FILL,
        resized=resizing(),
        evaluation=evaluation(),
        planes=planes(),
        files=files(),
        operations=operations(),
        equal_pixels=equal_pixels(),
    )
    text = json.dumps(golden, separators=(",", ":"))
    for key in golden:
        text = text.replace(f'"{key}":', f'\n"{key}":')
    (HERE / "golden.json").write_text(text.replace("},{", "},\n{") + "\n")
