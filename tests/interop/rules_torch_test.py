#!/usr/bin/env python3
"""Compares every update rule with torch.optim: 50 steps, with and without decay of both kinds, with clipping, at a rate that changes every step.

usage: rules_torch_test.py RULE_DUMP
Bounds: relative difference of the weights after every step, 1e-6 in f32 and 1e-12 in f64.
"""
import glob
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tensors

BOUND = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-12}


def optimizer(rule, p, decay, o):
    """The torch.optim optimizer for a rule with options o. Its lr is set before every step."""
    common = dict(lr=1.0, weight_decay=decay)
    if rule in ("sgd", "momentum", "nesterov"):
        return torch.optim.SGD([p], momentum=o.get("momentum", 0.0), nesterov=rule == "nesterov", **common)
    if rule == "adagrad":
        return torch.optim.Adagrad([p], lr_decay=o["lr_decay"], initial_accumulator_value=o["initial"], eps=o["eps"], **common)
    if rule == "rmsprop":
        return torch.optim.RMSprop([p], alpha=o["rho"], eps=o["eps"], momentum=o["momentum"], centered=bool(o["centered"]), **common)
    if rule == "adadelta":
        return torch.optim.Adadelta([p], rho=o["rho"], eps=o["eps"], **common)
    betas = (o["beta1"], o["beta2"]) if "beta1" in o else None
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "adamax": torch.optim.Adamax}[rule]
    return kind([p], betas=betas, eps=o["eps"], **common)


def worst_of(path):
    t, meta = tensors.load(path)
    p = torch.tensor(t["first"], requires_grad=True)
    o = {k[4:]: float(v) for k, v in meta.items() if k.startswith("opt.")}
    opt = optimizer(meta["rule"], p, float(meta["decay"]), o)
    clip, scale = float(meta["clip"]), float(meta["grad_scale"])
    worst, clamped = 0.0, 0
    for step in range(len(t["gradients"])):
        p.grad = torch.tensor(t["gradients"][step]) * scale
        if clip > 0:
            clamped += int((p.grad.abs() > clip).sum())
            torch.nn.utils.clip_grad_value_([p], clip)
        p.grad += float(meta["decay_l1"]) * torch.sign(p.detach())
        for group in opt.param_groups:
            group["lr"] = float(t["rates"][step])
        opt.step()
        worst = max(worst, tensors.relative(p.detach().numpy(), t["after"][step]))
    if clip > 0 and clamped == 0:
        sys.exit(f"{path}: no gradient was clipped")
    moved = tensors.relative(t["after"][-1], t["first"])
    if moved < 1e-3:
        sys.exit(f"{path}: the weights have hardly changed ({moved:.1e})")
    return meta["rule"], t["after"].dtype, worst


def main(binary):
    torch.set_num_threads(1)
    worst, seen = {}, set()
    with tempfile.TemporaryDirectory() as folder:
        names = subprocess.run([binary, folder], check=True, capture_output=True, text=True).stdout.split()
        files = sorted(glob.glob(os.path.join(folder, "*.safetensors")))
        for path in files:
            rule, dtype, d = worst_of(path)
            seen.add(rule)
            worst[(rule, str(dtype))] = max(worst.get((rule, str(dtype)), 0.0), d)
            if not d <= BOUND[dtype]:
                sys.exit(f"{os.path.basename(path)}: relative difference {d:.3e} > {BOUND[dtype]:.0e}")
    if seen != set(names):
        sys.exit(f"rules without a case: {sorted(set(names) - seen)}")
    for (rule, dtype), d in sorted(worst.items()):
        print(f"{rule:10} {dtype:8} worst relative difference {d:.2e}")
    print(f"{len(files)} cases of {len(names)} rules agree with torch {torch.__version__}")


if __name__ == "__main__":
    main(sys.argv[1])
