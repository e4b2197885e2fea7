#!/usr/bin/env python3
"""images_pil_test.py IMAGE_DUMP: compares the images source with PIL, which reads like torchvision's ImageFolder (convert("RGB"), sorted walk).

For files of every form that PIL writes, bytes, labels and order are equal; resized images differ by at most 1 of 255.
"""
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image

DUMP = sys.argv[1]
random.seed(5)
rng = np.random.default_rng(5)


def picture(width, height, mode):
    """A smooth image with some noise, which exercises both codecs."""
    planes = {"L": 1, "RGB": 3, "RGBA": 4, "CMYK": 4, "LA": 2}[mode]
    y, x = np.mgrid[0:height, 0:width]
    p = np.stack([128 + 90 * np.sin(x / rng.uniform(3, 9) + rng.uniform(0, 6)) * np.cos(y / rng.uniform(3, 9)) for _ in range(planes)], -1)
    p = np.clip(p + rng.normal(0, 8, p.shape), 0, 255).astype(np.uint8)
    return Image.fromarray(p[:, :, 0] if planes == 1 else p, mode)


def write_set(top, size):
    forms = []
    for mode in ("L", "RGB", "CMYK"):
        for quality in (30, 75, 95):
            forms.append((mode, "jpg", dict(quality=quality)))
            forms.append((mode, "JPG", dict(quality=quality, progressive=True)))
    forms += [("RGB", "jpeg", dict(quality=90, subsampling=s)) for s in (0, 1, 2)] + [("RGB", "jpg", dict(optimize=True))]
    forms += [(mode, "png", {}) for mode in ("L", "RGB", "RGBA", "LA")] + [("P", "png", {}), ("1", "png", {}), ("P", "png", dict(transparency=0))]
    for part in ("train", "test"):
        for c in ("zebra", "Ant", "bee/left", "bee/right", "bee"):
            os.makedirs(os.path.join(top, part, c), exist_ok=True)
            some = list(enumerate(forms))
            random.shuffle(some)  # so that the order of creation differs from the order of names
            for i, (mode, ending, options) in some if part == "train" else some[:1]:
                m = picture(*size(), mode if mode not in "P1" else "RGB")
                m = m.convert(mode) if mode in "P1" else m
                m.save(os.path.join(top, part, c, f"{i}.{ending}"), {"jpg": "JPEG", "jpeg": "JPEG"}.get(ending.lower(), "PNG"), **options)


def image_folder(top):
    """List of (path, label) in torchvision's order."""
    classes = sorted(e.name for e in os.scandir(top) if e.is_dir())
    out = []
    for label, c in enumerate(classes):
        for root, _, names in sorted(os.walk(os.path.join(top, c), followlinks=True)):
            out += [(os.path.join(root, n), label) for n in sorted(names)]
    return out


def dumped(folder, channels, size, resize, work):
    out = os.path.join(work, "values")
    r = subprocess.run([DUMP, folder, str(channels), str(size), "1" if resize else "0", out], text=True, capture_output=True)
    assert r.returncode == 0, r.stderr
    dims, labels = r.stdout.splitlines()
    return np.fromfile(out, np.float64).reshape([int(d) for d in dims.split()]), [int(l) for l in labels.split()]


def expected(path, channels, size):
    m = Image.open(path)
    m = m.convert("RGB" if channels == 3 else "L")
    if size:
        m = m.resize((size, size), Image.BILINEAR)
    a = np.asarray(m, np.float64)
    return a.transpose(2, 0, 1) if channels == 3 else a[None]


def main():
    compared = 0
    with tempfile.TemporaryDirectory() as work:
        same, mixed = os.path.join(work, "same"), os.path.join(work, "mixed")
        write_set(same, lambda: (37, 37))
        write_set(mixed, lambda: (random.randint(5, 120), random.randint(5, 120)))
        for folder, size, most in ((same, 0, 0), (mixed, 24, 1), (mixed, 70, 1)):
            for channels in (3, 1):
                values, labels = dumped(folder, channels, size, size > 0, work)
                files = image_folder(os.path.join(folder, "train"))
                assert len(files) == len(values) and [l for _, l in files] == labels, "the order or the labels differ"
                for (path, _), got in zip(files, values):
                    want = expected(path, channels, size)
                    far = np.abs(got - want).max()
                    assert far <= most, f"{path} channels {channels} size {size}: differs by {far}"
                    compared += 1
    print(f"{compared} images equal those of PIL {Image.__version__}")


main()
