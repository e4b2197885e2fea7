"""bench/environment.py, bench/peer_kernel.py and bench/step_page.py: the kernels that PyTorch runs with, the check of their products, the pages' text.

usage: bench_test.py ROOT
"""
import glob
import os
import sys
import unittest
from unittest import mock

import numpy

ROOT = os.path.abspath(sys.argv.pop(1))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import environment  # noqa: E402
import peer_kernel  # noqa: E402
import step_page  # noqa: E402

SET = {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_L2_SIZE": "512"}
# Pages that name PyTorch without figures that depend on its products: links to other pages, accuracies, Gloo only.
NO_PRODUCTS = ("accuracy.md", "cifar10.md", "collectives.md", "two_cores.md")
SIZES = ((1, 1, 1), (7, 13, 31), (33, 17, 65))


def product(a, b, c, _):
    return a @ b if c is None else a @ b + c


def said(rate, wrong=()):
    return {"torch": "1.13", "corename": "Haswell", "config": "OpenBLAS 0.3.21", "library": "/lib/libopenblas.so", "products": 8, "wrong": list(wrong),
            "sgemm_gflops": [rate, 2 * rate]}


def measured(as_set, unset, actors):
    """Times for a page. `actors`: Troupe's, with the variables set and unset."""
    times = {}
    for kernel, torch, ours in (("as set", as_set, actors[0]), ("unset", unset, actors[1])):
        times.update({("torch", kernel, layout): [ms] for layout, ms in zip(step_page.LAYOUTS, torch)})
        times.update({("Troupe", kernel, loop): [ms] for loop, ms in (("plain", ours / 2), ("actors", ours))})
    return times


class Kernels(unittest.TestCase):
    def test_are_tried_with_variables_set_and_unset(self):
        self.assertEqual([(k.name, k.variables) for k in environment.kernels({**SET, "HOME": "/"})], [("as set", SET), ("unset", {})])
        self.assertEqual(len(environment.kernels({"OPENBLAS_L2_SIZE": "512"})), 2)
        self.assertEqual([k.variables for k in environment.kernels({"OPENBLAS_NUM_THREADS": "2"})], [{}])

    def test_set_the_variables_of_the_peer(self):
        with mock.patch.dict(os.environ, SET):
            as_set, unset = (environment.peer_env(2, k) for k in environment.kernels(os.environ))
        self.assertEqual({n: as_set[n] for n in SET}, SET)
        self.assertFalse(set(SET) & set(unset))
        self.assertEqual((unset["OMP_NUM_THREADS"], unset["OPENBLAS_NUM_THREADS"]), ("2", "2"))
        self.assertIn("MALLOC_TOP_PAD_", unset)

    def test_with_wrong_products_are_not_chosen(self):
        slow, fast = environment.kernels(SET)
        self.assertEqual(environment.best_of([(slow, said(50)), (fast, said(100))]), fast)
        self.assertEqual(environment.best_of([(slow, said(50)), (fast, said(100, ["sgemm 1 x 1 x 1"]))]), slow)
        self.assertEqual(environment.sound([(slow, said(50, ["x"])), (fast, said(100))]), [fast])
        with self.assertRaises(SystemExit):
            environment.sound([(slow, said(50, ["x"])), (fast, said(100, ["x"]))])

    def test_are_wrong_when_the_check_fails_to_run(self):
        with mock.patch.object(environment, "PYTHON", "/bin/false"):
            report = environment.ask_peer(environment.kernels({})[0])
        self.assertEqual(len(report["wrong"]), 1)
        with self.assertRaises(SystemExit):
            environment.sound([(environment.kernels({})[0], report)])

    def test_of_troupe_count_as_checked_only_for_the_same_library(self):
        checked = said(100)
        self.assertTrue(environment.checked_for_troupe(checked, checked))
        for ours in (None, {**checked, "library": "/other.so"}, {**checked, "corename": "Zen"}):
            self.assertFalse(environment.checked_for_troupe(checked, ours))
        self.assertFalse(environment.checked_for_troupe(said(100, ["x"]), checked))
        as_set, unset = environment.kernels(SET)
        with mock.patch.object(environment, "troupe_report", lambda *_: checked):
            self.assertEqual(environment.kernels_of_troupe([(as_set, said(50, ["x"])), (unset, checked)], None), [unset])
        with mock.patch.object(environment, "troupe_report", lambda *_: None):
            self.assertEqual(environment.kernels_of_troupe([(as_set, checked), (unset, checked)], None), [as_set])


class Check(unittest.TestCase):
    def test_passes_correct_products_of_all_forms(self):
        report = peer_kernel.check(product, SIZES)
        self.assertEqual(report["wrong"], [])
        self.assertEqual(report["products"], 3 * 2 * 8 * 2)
        self.assertLess(report["worst"], 1)

    def test_reports_one_wrong_element(self):
        def wrong(a, b, c, threads):
            got = product(a, b, c, threads)
            if got.shape == (33, 17) and got.dtype == numpy.float32 and c is None and threads == 2:
                got[32, 16] += 0.01
            return got

        report = peer_kernel.check(wrong, SIZES)
        self.assertEqual(len(report["wrong"]), 4)
        self.assertIn("sgemm 33 x 17 x 65, 2 threads: error 0.01", report["wrong"][0])

    def test_reports_wrong_transposed_products_and_nan(self):
        report = peer_kernel.check(lambda a, b, c, t: product(a, b, c, t) * (1 if a.flags.c_contiguous else numpy.nan), ((7, 13, 31),))
        self.assertEqual(len(report["wrong"]), 16)
        self.assertTrue(all("a transposed" in w for w in report["wrong"]))
        self.assertEqual(report["worst"], float("inf"))


class Steps(unittest.TestCase):
    def test_are_compared_by_the_smallest_time_of_all_kernels(self):
        r = step_page.row(measured((20.0, 18.0), (12.0, 15.0), (9.0, 8.0)))
        self.assertEqual((r["torch"], r["ours"]), ((12.0, "unset", "nchw"), (8.0, "unset", "actors")))
        self.assertEqual((r["ratio"], r["ratio_as_set"]), (1.5, 2.0))
        words = step_page.verdict("LeNet b64", 2, r)
        self.assertIn("PyTorch / Troupe 1.50", words)
        self.assertIn("2.00 with the variables as set", words)

    def test_are_compared_without_kernels_with_wrong_products(self):
        times = measured((20.0, 18.0), (12.0, 15.0), (9.0, 8.0))
        for layout in step_page.LAYOUTS:
            del times["torch", "as set", layout]
        r = step_page.row(times)
        self.assertEqual((r["ratio"], r["ratio_as_set"]), (1.5, None))
        self.assertIn("wrong products", step_page.verdict("LeNet b64", 1, r))

    def test_omit_a_layout_that_is_much_slower_with_its_kernel(self):
        every = [("torch", k, layout) for k in ("as set", "unset") for layout in step_page.LAYOUTS]
        self.assertEqual(step_page.candidates({}, ("as set", "unset")), every)
        times = {every[0]: [40.0], every[1]: [20.0], every[2]: [10.0], every[3]: [11.0], ("Troupe", "as set", "actors"): [1.0]}
        self.assertEqual(step_page.candidates(times, ("as set", "unset")), every[1:])

    def test_are_read_from_pages_with_one_kernel(self):
        text = ("# T, 2026-01-01\n\n| net | threads | torch NCHW | torch channels-last | Troupe, plain loop | Troupe, actors | torch / Troupe |\n"
                "|---|---|---|---|---|---|---|\n| LeNet b64 | 2 | 12.68 | 8.72 | 7.76 | 4.78 | 1.82 |\n| LSTM | 1 | 251.4 | | 181.9 | 181.1 | 1.39 |\n"
                "| epoch of Fashion-MNIST, s | 1 | 21.68 | 14.48 | | 7.93 | 1.82 |\n\n| net | threads | other |\n|---|---|---|\n| LeNet b64 | 1 | 3 |\n")
        self.assertEqual(step_page.read_rows(text), {("LeNet b64", 2): (8.72, 4.78), ("LSTM", 1): (251.4, 181.1)})

    def test_name_the_kernel_of_each_side_when_there_are_several(self):
        two, one = measured((20.0, 18.0), (12.0, 15.0), (9.0, 8.0)), measured((20.0, 18.0), (), (9.0, 8.0))
        del two["Troupe", "unset", "plain"], two["Troupe", "unset", "actors"], one["Troupe", "unset", "plain"], one["Troupe", "unset", "actors"]
        head = step_page.table({("LeNet b64", 1): step_page.row(two)})[0]
        self.assertIn("torch channels-last, unset | Troupe, plain loop, as set | Troupe, actors, as set |", head)
        lines = step_page.table({("LeNet b64", 1): step_page.row(one)})
        self.assertIn("| torch NCHW | torch channels-last | Troupe, plain loop | Troupe, actors |", lines[0])
        self.assertIn("| LeNet b64 | 1 | 20.00 | 18.00 | 4.50 | 9.00 | 2.00 | 2.00 |", lines[2])

    def test_are_shown_with_both_ratios_and_next_to_older_ones(self):
        rows = {("LeNet b64", t): step_page.row(measured((20.0 / t, 18.0 / t), (12.0 / t, 15.0 / t), (9.0 / t, 8.0 / t))) for t in (1, 2)}
        for load, busy in ((0.1, False), (0.9, True)):
            text = step_page.page(rows, "2026-01-01", "A machine", "`x`", load, None)
            self.assertEqual("not idle" in text, busy)
        self.assertEqual(step_page.read_rows(text), {("LeNet b64", 1): (12.0, 8.0), ("LeNet b64", 2): (6.0, 4.0)})
        self.assertIn("| 1.50 | 2.00 |", text)
        self.assertIn("torch NCHW, unset", text)
        newer = step_page.page(rows, "2026-01-02", "A machine", "`x`", 0, ("torch_zen4.md", text.replace("8.00", "6.00")))
        self.assertIn("| LeNet b64 | 1 | 12.00 | 12.00 | 6.00 | 8.00 | 2.00 | 1.50 | 2.00 |", newer)


class Pages(unittest.TestCase):
    def test_have_exactly_one_environment_section(self):
        once = environment.with_section("# T\n\ntext\n", "## Environment\n\n| a | b |\n")
        self.assertEqual(once, "# T\n\ntext\n\n## Environment\n\n| a | b |\n")
        self.assertEqual(environment.with_section(once, "## Environment\n\n| c | d |\n"), once.replace("| a | b |", "| c | d |"))
        self.assertIn("## More\n", environment.with_section(once + "\n## More\n", "## Environment\n\n| c | d |\n"))

    def test_name_the_kernels_used_and_the_wrong_ones(self):
        ours = {**said(40), "fma_instructions": "AVX-512", "fma_gflops": [250, 500], "numerics": "openblas-Haswell/x86-64-v4"}
        as_set, unset = environment.kernels(SET)
        peers = [(as_set, said(50, ["sgemm 1 x 1 x 1"])), (unset, said(100))]
        text = environment.section("2026-01-01", "abc", 0.1, {**SET, "HOME": "/"}, [(as_set, ours)], peers, [unset])
        self.assertIn("| variables | OPENBLAS_CORETYPE=Haswell, OPENBLAS_L2_SIZE=512 |", text)
        self.assertIn("250 / 500 GFLOP/s", text)
        self.assertIn("1 of 8 products wrong, **not used**: sgemm 1 x 1 x 1", text)
        self.assertIn("sgemm 100 / 200 GFLOP/s; 8 products right |", text)
        self.assertIn("not recorded", environment.section("2026-01-01", "abc", 0.1, {}, [], [], []))

    def test_are_marked_once_when_they_name_pytorch_without_an_environment(self):
        once = environment.marked("# T, 2026-01-01\n\nBeside PyTorch.\n")
        self.assertEqual(once, f"# T, 2026-01-01\n\n{environment.MARK}\n\nBeside PyTorch.\n")
        self.assertEqual(environment.marked(once), once)
        for text in ("# T\n\nBytes of reducers.\n", "# T\n\nBeside PyTorch.\n\n## Environment\n\n| a | b |\n"):
            self.assertEqual(environment.marked(text), text)

    def test_of_the_repository_have_an_environment_or_a_mark(self):
        pages = [p for p in glob.glob(os.path.join(ROOT, "docs/measurements/*.md")) if os.path.basename(p) not in ("README.md", *NO_PRODUCTS)]
        self.assertTrue(pages)
        unmarked = []
        for path in pages:
            with open(path, encoding="utf-8") as f:
                text = f.read()
            if environment.marked(text) != text:
                unmarked.append(os.path.basename(path))
        self.assertEqual(unmarked, [], "publish these pages again, or mark them: bench/environment.py --mark FILE")


if __name__ == "__main__":
    unittest.main()
