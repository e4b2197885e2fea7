"""The page of bench/compare.py: the table of training steps, the best of PyTorch's candidates, and the figures of an older page."""
import os
import re
import statistics

MEASUREMENTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "measurements")
PAGES = tuple(f"{name}.md" for name in ("step_times", "torch_zen4"))  # the first that exists has the previous figures
LAYOUTS = {"nchw": "NCHW", "channels_last": "channels-last"}
LOOPS = {"plain": "plain loop", "actors": "actors"}
SLOWER = 1.15  # a layout that is this much slower than the other one in the first round is not measured again


def newest_page():
    """(name, text) of the page that has the previous figures."""
    name = next(n for n in PAGES if os.path.exists(os.path.join(MEASUREMENTS, n)))
    with open(os.path.join(MEASUREMENTS, name), encoding="utf-8") as f:
        return name, f.read()


def candidates(times, kernels):
    """[("torch", kernel's name, layout)] of the next round. times: {(side, kernel's name, layout or loop): [ms]} of the rounds before."""
    def middle(key):
        return statistics.median(times[key])

    found = []
    for kernel in kernels:
        keys = [("torch", kernel, layout) for layout in LAYOUTS]
        least = min((middle(k) for k in keys if k in times), default=None)
        found += [k for k in keys if k not in times or middle(k) <= SLOWER * least]
    return found


def least(medians, side, kernel=None):
    """(ms, kernel's name, layout or loop): the side's smallest median, of all kernels or of one; None if there is none."""
    return min(((ms, k, how) for (who, k, how), ms in medians.items() if who == side and how != "plain" and kernel in (None, k)), default=None)


def row(times):
    """For one net and number of threads: medians by candidate; the best of both sides and their ratio; the same with the variables as set."""
    medians = {key: statistics.median(list_) for key, list_ in times.items()}
    torch, ours, torch_set, ours_set = (least(medians, side, k) for k in (None, "as set") for side in ("torch", "Troupe"))
    return {"medians": medians, "torch": torch, "ours": ours, "ratio": torch[0] / ours[0],
            "ratio_as_set": torch_set[0] / ours_set[0] if torch_set and ours_set else None}


def ratio_text(ratio):
    return "wrong products" if ratio is None else f"{ratio:.2f}"


def verdict(title, threads, r):
    ms, kernel, layout = r["torch"]
    return (f"{title}, {threads} thread{'s' * (threads > 1)}: PyTorch / Troupe {r['ratio']:.2f} ({ms:.2f} ms, {LAYOUTS[layout]}, variables {kernel}; "
            f"{r['ours'][0]:.2f} ms, variables {r['ours'][1]}), {ratio_text(r['ratio_as_set'])} with the variables as set")


def table(rows):
    """rows: {(title, threads): row}"""
    keys = sorted(next(iter(rows.values()))["medians"], key=lambda key: key[0] == "Troupe")
    several = len({kernel for _, kernel, _ in keys}) > 1
    names = [(f"torch {LAYOUTS[how]}" if side == "torch" else f"Troupe, {LOOPS[how]}") + (f", {k}" if several else "") for side, k, how in keys]
    head = ["net", "threads", *names, "torch's best / Troupe's", "torch / Troupe, as set"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for (title, threads), r in rows.items():
        cells = [f"{r['medians'][k]:.2f}" for k in keys]
        lines.append(f"| {title} | {threads} | " + " | ".join(cells) + f" | {r['ratio']:.2f} | {ratio_text(r['ratio_as_set'])} |")
    return lines


def numbers(cells):
    return [float(c) for c in cells if re.fullmatch(r"\d+(\.\d+)?", c)]


def read_rows(text):
    """{(net, threads): (PyTorch's smallest ms, ms through Troupe's actors)} of the first table of steps of a page."""
    found, head = {}, None
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if cells[:2] == ["net", "threads"] and any(c.startswith("Troupe, actors") for c in cells):
            head = cells
        elif head and not cells:
            break
        elif head and cells[1].isdigit():
            peer = numbers(c for name, c in zip(head, cells) if name.startswith("torch") and "/" not in name)
            ours = numbers(c for name, c in zip(head, cells) if name.startswith("Troupe, actors"))
            if peer and ours and not cells[0].endswith(", s"):  # an epoch's seconds
                found[cells[0], int(cells[1])] = (min(peer), min(ours))
    return found


def beside(old, rows):
    """The new figures next to those of an older page (read_rows), for the rows that both have."""
    lines = ["| net | threads | torch's best, before | now | Troupe, before | now | torch / Troupe, before | now | with the variables as set, now |", "|---" * 9 + "|"]
    for (title, threads), r in rows.items():
        if (title, threads) in old:
            peer, ours = old[title, threads]
            lines.append(f"| {title} | {threads} | {peer:.2f} | {r['torch'][0]:.2f} | {ours:.2f} | {r['ours'][0]:.2f} | {peer / ours:.2f} | "
                         f"{r['ratio']:.2f} | {ratio_text(r['ratio_as_set'])} |")
    return lines


def both(rows, title, key):
    return " and ".join(ratio_text(r[key]) for (t, _), r in rows.items() if t == title)


def page(rows, date, where, command, load, previous):
    """previous: (file name, its text) of an older page, or None."""
    titles = list(dict.fromkeys(title for title, _ in rows))
    two = [(t, rows[t, 1]["ours"][0] / rows[t, 2]["ours"][0]) for t in titles]
    lines = [f"# Troupe against PyTorch, {date}", "",
             "**Question.** How fast is a training step through Troupe's actors compared with tuned PyTorch, with one thread and with two?",
             "**Answer.** " + "; ".join(f"{t} {both(rows, t, 'ratio')} times as fast" for t in titles) + ".",
             "Two cores against one, through the actors: " + ", ".join(f"{t} {r:.2f}" for t, r in two) + ".", "",
             "![Milliseconds per training step, Troupe and tuned PyTorch; lower is better](../step_times.svg)", "",
             f"**Command.** {command}", f"**Where.** {where}. Medians; ms per step (forward, backward, update; fp32)."]
    if load > 0.5:
        lines.append(f"**The machine was not idle**: load average {load:.1f} at the beginning.")
    lines += ["", *table(rows), "",
              "PyTorch runs with BLAS threads as torch threads, glibc's malloc kept from returning memory to the kernel, NCHW and channels-last. Both sides run with",
              "OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE as set and, where one of them is set, unset, after a check of the products. The best time of each side counts; the",
              f"last column has both sides with the variables as set. A layout that took more than {SLOWER} times as long as the other in the first round was not",
              "measured again."]
    if previous:
        name, text = previous
        heading = text.partition("\n")[0].lstrip("# ")
        lines += ["", f"Compared with [{name}]({name}) ({heading}):", "", *beside(read_rows(text), rows)]
    return "\n".join(lines) + """

The plain loop always runs on one thread, with the same packets. With two threads AlexNet's fc6, fc7 and fc8 are
split by feature between two workers of the process and take both packets as one (`--set topology.workers_per_group=2
--set layer.fc6.partition=feature --set layer.fc6.gather=true`).

**What it does not show.** Troupe's time includes loading and everything its actors do; PyTorch's step works on one batch that
stays in memory. More than two threads, other machines, larger nets, bf16 (`bench/bf16.py`): not tried.
"""
