"""The page of bench/gpu.py. Without a card (--tiny) it has no figures."""
import statistics

import gpu_probe

NO_SPEED = "virtual GPU, no speed"


def middle(samples):
    """Median of [(ms, idle)]'s times."""
    return statistics.median(ms for ms, _ in samples)


def best(found):
    """(key, samples) with the smallest median, of {key: samples}; None if there are none."""
    return min(found.items(), key=lambda item: middle(item[1]), default=None)


def told_ms(card, found):
    if not found:
        return "not measured"
    if not card:
        return NO_SPEED
    times = [ms for ms, _ in found[1]]
    return f"{statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f})"


def told_idle(found):
    known = [idle for _, idle in found[1] if idle is not None] if found else []
    return f"{statistics.mean(known):.0f} %" if known else "null"


def told_share(card, found, flops, precision):
    top = gpu_probe.peak(card["name"] if card else None, precision)
    return f"{100 * flops / (middle(found[1]) * 1e-3) / (top * 1e12):.0f} %" if top and found else "null"


def torch_by(got, how):
    return best({key: samples for key, samples in got["torch"].items() if key[1] == how})


def row(card, title, got):
    ours, peer = best(got["troupe"]), best(got["torch"])
    ratio = f"{middle(peer[1]) / middle(ours[1]):.2f}" if card and peer else "null"
    cells = [title, told_ms(card, ours), f"{got['time']['load_ms']:.1f}" if card else NO_SPEED, told_ms(card, torch_by(got, "eager")),
             told_ms(card, torch_by(got, "compile")), ratio, told_idle(ours), told_idle(peer), told_share(card, ours, got["flops"], got["precision"]),
             told_share(card, peer, got["flops"], got["precision"])]
    return "| " + " | ".join(cells) + " |"


def answer(card, got):
    if not card:
        return f"None: {NO_SPEED}."
    ratios = {title: middle(best(g["torch"])[1]) / middle(best(g["troupe"])[1]) for title, g in got.items() if g["torch"]}
    return "PyTorch / Troupe: " + (", ".join(f"{title} {r:.2f}" for title, r in ratios.items()) or "PyTorch was not measured") + "."


def used(got):
    """Which candidate of each side was the best."""
    return [f"- {title}: packets of Troupe: {best(g['troupe'])[0]}; PyTorch: " +
            (", ".join(best(g["torch"])[0]) if g["torch"] else "not measured") for title, g in got.items()]


def page(date, card, got, both, failures, a):
    """got: {title: what bench/gpu.py measured}; both: (title, [(what, ms)]) of one net on GPU and CPU, or None."""
    where = f"{card['name']}, driver {card.get('driver', 'unknown')}" if card else NO_SPEED
    head = ["net", "Troupe, ms", "of it loading on the host, alone", "torch eager, ms", "torch.compile, ms", "torch's best / Troupe", "Troupe: GPU idle",
            "torch: GPU idle", "Troupe: share of peak", "torch: share of peak"]
    lines = [f"# Troupe on a GPU, {date}", "", "**Question.** How long does a training step through Troupe's actors take on a GPU, compared with PyTorch?",
             f"**Answer.** {answer(card, got)}", "",
             f"**Command.** `python3 bench/gpu.py --rounds {a.rounds} --seconds {a.seconds:g}{' --tiny' if a.tiny else ''}` (`scripts/gpu_check` runs it)",
             f"**Where.** {where}. Medians of the rounds with the smallest and the largest; both sides alternate.", "",
             "| " + " | ".join(head) + " |", "|---" * len(head) + "|", *(row(card, title, g) for title, g in got.items())]
    if card:
        lines += ["", "The best candidates:", "", *used(got)]
    if both:
        title, rows = both
        lines += ["", f"One batch on GPU and CPU, {title}:", "", "| where | ms |", "|---|---|"]
        lines += [f"| {what} | {f'{ms:.1f}' if card else NO_SPEED} |" for what, ms in rows]
    notes = [*(f"**failed**, {f}" for f in failures), *sorted({n for g in got.values() for n in g["notes"]})]
    lines += [""] + [f"- {n}" for n in notes] if notes else []
    return "\n".join(lines) + """

- A step of Troupe is the median of the coordinator's `step_seconds`: with loading, which runs beside the GPU, and everything that its actors do. The peer's
  batch stays on the GPU.
- Idle: 100 % minus the mean of nvidia-smi's `utilization.gpu`, sampled every 100 ms while steps are timed, for both sides. It counts time with at least one
  kernel as busy, whatever part of the GPU the kernel uses.
- Share of the peak: operations of the net's products (`troupe time --json`) per second, over the data sheet's rate: f32 without tensor cores, bf16 with
  them. null: a GPU that `bench/gpu_probe.py` does not list, or too few samples.

**What it does not show.** Several GPUs; decoding of images; other nets and batches.
"""
