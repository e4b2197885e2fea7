"""What bench/gpu.py learns about the GPU and from programs that use it: its name and peak, and the share of time in which a kernel ran."""
import json
import re
import shutil
import statistics
import subprocess
import threading
import time

# (name as nvidia-smi prints it, TFLOP/s in f32 without tensor cores, in bf16 with them, both dense), from NVIDIA's data sheets.
PEAKS = ((r"A100", 19.5, 312), (r"H100 PCIe$", 51, 756), (r"H[12]00 NVL$", 60, 835), (r"H100 80GB HBM3$|H200$", 67, 989), (r"L40S$", 91.6, 362),
         (r" L4$", 30.3, 121), (r" A10$", 31.2, 125), (r"RTX 4090$", 82.6, 165), (r"RTX 3090$", 35.6, 71))
PERIOD_MS = 100


def card(binary):
    """The event `device` of `troupe device_query --json` for gpu:0: name, driver, cuda, cudnn, memory_total, pci_bus, ...; None without a GPU."""
    r = subprocess.run([binary, "device_query", "--json"], capture_output=True, text=True, check=True)
    events = [json.loads(line) for line in r.stdout.splitlines() if line.startswith("{")]
    return next((e for e in events if e.get("device") == "gpu:0"), None)


def peak(name, precision):
    """TFLOP/s; None for a GPU that is not in PEAKS."""
    for pattern, f32, bf16 in PEAKS:
        if name and re.search(pattern, name):
            return bf16 if precision == "bf16" else f32
    return None


class Utilisation:
    """Samples of nvidia-smi's utilization.gpu: the percentage of its last interval (at most a second) in which a kernel ran, of any process."""

    def __init__(self, bus):
        """bus: the PCI address of the GPU; None: no samples."""
        self.bus, self.samples, self.process = bus, [], None  # samples: (time, percent)

    def __enter__(self):
        if self.bus and shutil.which("nvidia-smi"):
            words = ["nvidia-smi", "-i", self.bus, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", str(PERIOD_MS)]
            self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
            self.reader = threading.Thread(target=self.read)
            self.reader.start()
        return self

    def read(self):
        for line in self.process.stdout:
            if line.strip().isdigit():
                self.samples.append((time.monotonic(), int(line)))

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.reader.join()
            self.process.wait()
            self.process.stdout.close()

    def idle(self, begin, end):
        """Percent; None if too few samples lie between the times, less the second that the first one may reach back."""
        found = [p for at, p in self.samples if begin + 1 <= at <= end]
        return 100 - statistics.mean(found) if len(found) >= 10 else None


def watched(words, steady, bus):
    """Runs a program that prints JSON lines. Returns them, and the idle time in percent (or None) of the GPU with this PCI address from the first line
    for which steady() is true to the last one. Raises RuntimeError if the program fails."""
    events, begin, end = [], None, None
    with Utilisation(bus) as use, subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        errors = []
        reader = threading.Thread(target=lambda: errors.append(p.stderr.read()))  # a full pipe would block the program
        reader.start()
        for line in p.stdout:
            if not line.startswith("{"):
                continue
            events.append(json.loads(line))
            end = time.monotonic()
            if begin is None and steady(events[-1]):
                begin = end
        reader.join()
    if p.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} ended with {p.returncode}: {''.join(errors).strip() or events[-1:]}")
    return events, use.idle(begin, end) if begin else None
