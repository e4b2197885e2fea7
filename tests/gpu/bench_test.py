"""bench/gpu.py, gpu_page.py and gpu_probe.py with an invented GPU: the figures of the page, the candidates, failures, and the sampling of idle time.

usage: bench_test.py ROOT
"""
import contextlib
import io
import os
import stat
import sys
import tempfile
import unittest
from unittest import mock

ROOT = os.path.abspath(sys.argv.pop(1))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import gpu  # noqa: E402
import gpu_probe  # noqa: E402

CARD = {"name": "NVIDIA H100 80GB HBM3", "memory_total": 80 << 30, "driver": "580.1", "cuda": "13.0", "cublas": "13.1.0", "cudnn": "9.19.0",
        "numerics_id": "gpu/sm_90", "pci_bus": "0000:01:00.0"}


def option(words, name):
    return next((w.partition("=")[2] for w in words if w.startswith(name + "=")), "")


def invented(words, steady, bus):
    """In place of gpu_probe.watched(): the events of a program. A step of Troupe takes 20 ms with two packets and 40 ms otherwise, and a step of PyTorch
    30 ms in channels-last, 50 ms in NCHW; torch.compile is missing. A layer has 13.4 TFLOP, a tenth of what the GPU computes in 2 s."""
    if words[1] == "time":
        return [{"event": "time", "actors_ms": 40, "load_ms": 7, "layers": [{"forward_flops": 4e11, "backward_flops": 9.4e11}]}], None
    if words[1] == "train":
        ms = 20 if option(words, "pipeline.packets") == "2" else 40
        return [{"event": "step", "step": i, "step_seconds": 1 if i <= gpu.WARM else ms / 1000} for i in range(1, 30)], 12
    if "compile" in words:
        return [{"event": "skipped", "why": "no torch.compile"}], None
    return [{"event": "steady"}, {"event": "done", "ms": 30 if "channels_last" in words else 50}], 34


def run(*words, watched=invented, card=CARD):
    """(exit code, what was published, how often each program ran) of bench/gpu.py."""
    calls, pages = [], []

    def counting(command, steady, bus):
        calls.append(command)
        return watched(command, steady, bus)

    with mock.patch.object(gpu_probe, "watched", counting), mock.patch.object(gpu_probe, "card", lambda _: card), \
            mock.patch.object(gpu, "torch_versions", lambda *_: ["2.9", "13.0", "91900"]), \
            mock.patch.object(gpu, "publish", lambda text, out, binaries, more: pages.append(text + str(more))), \
            mock.patch.object(sys, "argv", ["gpu.py", *words]), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            gpu.main()
        except SystemExit as e:
            return e.code, "".join(pages), calls
    return 0, "".join(pages), calls


class Page(unittest.TestCase):
    def test_has_the_best_of_each_side_their_ratio_idle_times_and_shares_of_the_peak(self):
        code, page, _ = run("--nets", "lenet")
        self.assertEqual(code, 0)
        # 1.34 TFLOP in 20 ms are the peak of 67 TFLOP/s, and in 30 ms two thirds of it.
        self.assertIn("| LeNet b64 | 20.00 (20.00 to 20.00) | 7.0 | 30.00 (30.00 to 30.00) | not measured | 1.50 | 12 % | 34 % | 100 % | 67 % |", page)
        self.assertIn("packets of Troupe: 2; PyTorch: channels_last, eager", page)
        self.assertIn("PyTorch, compile: no torch.compile", page)
        self.assertIn("NVIDIA H100 80GB HBM3, 80 GiB, driver 580.1", page)

    def test_compares_gpu_and_cpu_on_one_batch_of_alexnet(self):
        _, page, calls = run("--nets", "alexnet", "--rounds", "1")
        self.assertIn("One batch on GPU and CPU, AlexNet b256:", page)
        self.assertIn("| GPU and CPU, 1/16 on the CPU | 40.0 |", page)
        self.assertTrue(any(option(c, "layer.conv1.fraction") == "[0.9375,0.0625]" for c in calls))

    def test_has_no_figure_of_a_gpu_whose_peak_is_unknown(self):
        _, page, _ = run("--nets", "lenet", card={**CARD, "name": "NVIDIA Unheard"})
        self.assertIn("| 12 % | 34 % | null | null |", page)

    def test_names_a_net_that_fails_and_has_the_others(self):
        def failing(words, steady, bus):
            if any("resnet50" in w for w in words):
                raise RuntimeError("out of memory")
            return invented(words, steady, bus)

        code, page, _ = run("--nets", "resnet50,lenet", watched=failing)
        self.assertEqual(code, 1)
        self.assertIn("**failed**, ResNet-50 b128 bf16: out of memory", page)
        self.assertIn("| LeNet b64 | 20.00", page)

    def test_is_refused_on_the_virtual_gpu_and_without_a_gpu(self):
        self.assertIn("--tiny", run(card={**CARD, "name": "virtual GPU"})[0])
        self.assertEqual(run(card=None)[0], 3)


class Candidates(unittest.TestCase):
    def test_that_are_slow_in_the_first_round_are_not_measured_again(self):
        _, _, calls = run("--nets", "lenet", "--rounds", "3")
        count = {n: sum(option(c, "pipeline.packets") == n for c in calls if c[1] == "train") for n in "12"}
        self.assertEqual(count, {"1": 1, "2": 3})
        self.assertEqual([sum(layout in c for c in calls if "eager" in c) for layout in gpu.LAYOUTS], [1, 3])


class Idle(unittest.TestCase):
    def test_is_the_mean_of_the_samples_after_the_first_second(self):
        use = gpu_probe.Utilisation(None)
        use.samples = [(at / 10, 0 if at < 110 else 73) for at in range(200)]
        self.assertEqual(use.idle(10, 15), 27)
        self.assertIsNone(use.idle(10, 11.5))  # too few samples

    def test_is_sampled_by_nvidia_smi(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "nvidia-smi")
            with open(path, "w") as f:
                f.write(f"#!/bin/bash\n[[ $2 == {CARD['pci_bus']} ]] && printf '73\\n[N/A]\\n%.0s' 1 2 3\n")
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
            with mock.patch.dict(os.environ, {"PATH": folder + ":" + os.environ["PATH"]}), gpu_probe.Utilisation(CARD["pci_bus"]) as use:
                use.reader.join()
        self.assertEqual([percent for _, percent in use.samples], [73] * 3)

    def test_is_unknown_without_samples_and_a_failed_program_is_an_error(self):
        self.assertIsNone(gpu_probe.watched(["/bin/echo", '{"event": "done"}'], lambda e: True, None)[1])
        with self.assertRaisesRegex(RuntimeError, "ended with 1"):
            gpu_probe.watched(["/bin/false"], lambda e: True, None)


if __name__ == "__main__":
    unittest.main()
