#!/usr/bin/env python3
"""ends_test.py BIN: how processes of Troupe end by signals, and what a reader that goes away does to them.

BIN is the folder of the programs. PYTHONPATH names the Python package; without it, its tests are
skipped. TROUPE_ENDS_RUNS is the number of runs of each test (default 1), TROUPE_ENDS_LOAD=1 keeps all cores busy meanwhile.
"""
import glob
import json
import multiprocessing
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = ""
RUNS = int(os.environ.get("TROUPE_ENDS_RUNS", "1"))
PATIENCE = 120  # seconds

JOB = """[job]
name = "tiny"
seed = 3
[data]
source = "synthetic"
shape = [8]
classes = 4
examples = 320
test_examples = 50
batch = 16
[[layer]]
name = "ip1"
type = "linear"
inputs = ["data"]
outputs = 4
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["ip1", "label"]
[train]
dynamics = { rule = "momentum", lr = 0.05, momentum = 0.9 }
finish = { steps = 100000000 }
"""

PYTHON = """import sys, troupe
try:
    troupe.train(sys.argv[1], run_dir="runs", on_step=lambda e: print(e.step, flush=True) if e.step % 20 == 0 else None)
finally:
    print("ended", flush=True)
"""

# What is sent, and the exit code.
ENDS = [([signal.SIGINT], 130), ([signal.SIGTERM], 143), ([signal.SIGHUP], 129), ([signal.SIGTERM, signal.SIGTERM], 143),
        ([signal.SIGINT, signal.SIGINT], 130)]


def fresh():
    """In the child: signals as at a terminal, whatever the test was started with."""
    for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(s, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def small_files():
    fresh()
    resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, 100 << 10))


class Child:
    """A process. Its stderr goes to a file, so that only stdout must be read."""

    def __init__(self, words, folder, before=fresh):
        self.words = words
        self.err = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=self.err, stdin=subprocess.DEVNULL,
                                        preexec_fn=before)
        self.lines = []

    def line(self):
        text = self.process.stdout.readline().decode()
        assert text, f"{self.words}: its output ended: {self.lines[-3:]}\n{self.errors()}"
        self.lines.append(text)
        return text

    def until(self, found):
        while not found(self.line()):
            pass

    def until_full(self):
        """Waits until the child cannot write to its stdout any more."""
        until, writer = time.monotonic() + PATIENCE, os.open(f"/proc/self/fd/{self.process.stdout.fileno()}", os.O_WRONLY)
        while select.select([], [writer], [], 0)[1]:
            assert time.monotonic() < until and self.process.poll() is None, f"{self.words}: it fills no pipe\n{self.errors()}"
        os.close(writer)

    def errors(self):
        self.err.seek(0)
        return self.err.read().decode()

    def send(self, signals):
        for s in signals:
            self.process.send_signal(s)

    def end(self):
        """The exit code, 128 + N for signal N; reads the rest of the output."""
        rest = self.process.communicate(timeout=PATIENCE)[0] if not self.process.stdout.closed else None
        if rest:
            self.lines += rest.decode().splitlines(keepends=True)
        code = self.process.wait(PATIENCE)
        return code if code >= 0 else 128 - code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.err.close()


class Ends(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="troupe_ends_")
        self.addCleanup(subprocess.run, ["rm", "-rf", self.folder], check=False)
        self.write("job.toml", JOB)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def start(self, *words, before=fresh):
        c = Child([words[0] if os.path.isabs(words[0]) else os.path.join(BIN, words[0]), *words[1:]], self.folder, before)
        self.addCleanup(c.close)
        return c

    def run_of(self, *words):
        c = self.start(*words)
        code = c.end()
        self.assertEqual(code, 0, f"{words}\n{c.errors()}\n{''.join(c.lines[-3:])}")
        return c

    def last_run(self):
        folder = max(filter(os.path.isdir, glob.glob(self.path("runs", "*-*"))), key=lambda f: int(os.path.basename(f).split("-")[0]))
        with open(os.path.join(folder, "run.json"), encoding="utf-8") as f:
            return folder, json.load(f)

    def check_stopped_run(self, state="stopped"):
        """The newest run has a checkpoint of its last step: it continues with the step after it."""
        folder, info = self.last_run()
        self.assertEqual(info["state"], state)
        steps = int(info["steps"])
        number = os.path.basename(folder).split("-")[0]
        on = self.run_of("troupe", "resume", number, "--run-dir", "runs", "--json", "--set", f"train.finish.steps={steps + 2}")
        first = next(e for e in map(json.loads, on.lines) if e["event"] == "step")
        self.assertEqual(first["step"], steps + 1)

    @staticmethod
    def each(ends=tuple(ENDS)):
        return list(ends) * RUNS

    def stop(self, child, signals, code):
        child.until(lambda line: json.loads(line).get("step", 0) >= 5)
        child.send(signals)
        self.assertEqual(child.end(), code, f"{signals}: {child.errors()}")
        self.assertEqual(json.loads(child.lines[-1])["event"], "done")

    def test_train(self):
        for signals, code in self.each():
            self.stop(self.start("troupe", "train", "job.toml", "--json", "--run-dir", "runs"), signals, code)
            self.check_stopped_run()

    def test_resume(self):
        for signals, code in self.each():
            self.stop(self.start("troupe", "train", "job.toml", "--json", "--run-dir", "runs"), [signal.SIGINT], 130)
            self.stop(self.start("troupe", "resume", "--json", "--run-dir", "runs"), signals, code)
            self.check_stopped_run()

    def test_train_with_out_does_not_succeed(self):
        for signals, code in self.each(ENDS[:1]):
            c = self.start("troupe", "train", "job.toml", "--json", "--no-run", "--out", "w.safetensors")
            c.until(lambda line: '"step"' in line)
            c.send(signals)
            self.assertEqual(c.end(), code)
            self.assertFalse(os.path.exists(self.path("w.safetensors")))

    def test_train_goes_on_without_its_reader(self):
        for more in (["--json"], []):
            c = self.start("troupe", "train", "job.toml", *more, "--run-dir", "runs", "--set", "train.finish.steps=3000")
            c.line()
            c.process.stdout.close()
            self.assertEqual(c.end(), 0, c.errors())
            self.assertNotIn("stdout", c.errors())
            self.assertEqual(self.last_run()[1]["state"], "done")

    def ends_unread(self, code, ask, *words):
        """A process that was asked to end while nobody reads its output. What it could not write counts as a failure."""
        c = self.start(*words)
        c.line()
        c.until_full()
        ask(c)
        end = c.process.wait(PATIENCE)
        self.assertEqual(end, code, c.errors())
        self.assertIn("its reader does not read", c.errors())

    def test_train_ends_when_its_reader_does_not_read(self):
        def asks_by(command):
            return lambda _: self.run_of("troupe", "repl", self.last_run()[0], "-c", command)

        train = ("troupe", "train", "job.toml", "--json", "--run-dir", "runs")
        for code, ask in ((130, lambda c: c.send([signal.SIGINT])), (143, lambda c: c.send([signal.SIGTERM])), (1, asks_by("stop"))):
            self.ends_unread(code, ask, *train)
            self.check_stopped_run()
        self.ends_unread(1, asks_by("kill"), *train)
        self.assertEqual(self.last_run()[1]["state"], "failed")

    def test_sim_ends_when_its_reader_does_not_read(self):
        self.ends_unread(143, lambda c: c.send([signal.SIGTERM]), "troupe", "sim", "job.toml", "--nodes", "2", "--json")

    def test_client_of_a_cluster_ends_when_its_reader_does_not_read(self):
        if not os.path.exists(os.path.join(BIN, "trouped")):
            self.skipTest("trouped is not built")
        self.start_daemon("state")
        self.ends_unread(1, lambda c: c.send([signal.SIGTERM]), "troupe", "train", "job.toml", "--cluster", "there.toml", "--json")

    def test_train_goes_on_at_the_limit_of_file_sizes(self):
        c = self.start("troupe", "train", "job.toml", "--json", "--run-dir", "runs", "--set", "train.finish.steps=6000", before=small_files)
        self.assertIn(c.end(), (0, 1), c.errors())
        steps = [e for e in map(json.loads, c.lines) if e["event"] == "step"]
        self.assertEqual(steps[-1]["step"], 6000)

    def test_nohup_keeps_a_run_alive(self):
        def nohup():
            fresh()
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

        c = self.start("troupe", "train", "job.toml", "--json", "--run-dir", "runs", "--set", "train.finish.steps=3000", before=nohup)
        c.line()
        c.send([signal.SIGHUP])
        self.assertEqual(c.end(), 0, c.errors())

    def test_sim(self):
        for signals, code in self.each():
            c = self.start("troupe", "sim", "job.toml", "--nodes", "2", "--json", "--trace", "sim.pftrace")
            c.until(lambda line: '"event":"step"' in line)
            c.send(signals)
            self.assertEqual(c.end(), code, f"{signals}: {c.errors()}")
            self.assertGreater(os.path.getsize(self.path("sim.pftrace")), 0)

    def net(self):
        if not os.path.exists(self.path("tiny.troupe")):
            self.run_of("troupe", "train", "job.toml", "--no-run", "--set", "train.finish.steps=3", "--out", "w.safetensors")
            self.run_of("troupe", "export", "job.toml", "--weights", "w.safetensors", "--out", "tiny.troupe")
        return "tiny.troupe"

    def test_serve(self):
        net = self.net()
        for signals, _ in self.each():
            c = self.start("troupe", "serve", net, "--address", "127.0.0.1:0", "--json")
            c.line()
            c.send(signals)
            self.assertEqual(c.end(), 0, c.errors())

    def test_predict_ends_quietly_without_its_reader(self):
        net = self.net()
        self.write("many.csv", "a,b,c,d,e,f,g,h\n" + "0,1,2,3,4,5,6,7\n" * 200000)
        c = self.start("troupe", "predict", net, "many.csv")
        c.line()
        c.process.stdout.close()
        self.assertEqual(c.end(), 0, c.errors())
        self.assertNotIn("stdout", c.errors())

    def ends_without_its_reader(self, *words):
        c = self.start(*words)
        c.line()
        c.process.stdout.close()
        self.assertEqual(c.end(), 0, c.errors())
        self.assertNotIn("stdout", c.errors())

    def test_sim_ends_without_its_reader(self):
        self.ends_without_its_reader("troupe", "sim", "job.toml", "--nodes", "2", "--json")

    def test_watch_ends_without_its_reader(self):
        run = self.start("troupe", "train", "job.toml", "--json", "--run-dir", "runs")
        run.until(lambda line: '"step"' in line)
        run.process.stdout.close()  # a full pipe would stop it
        for more in (["--json"], []):
            self.ends_without_its_reader("troupe", "repl", self.last_run()[0], *more, "-c", "watch loss")

    def test_replay_ends_without_its_reader(self):
        self.run_of("troupe", "train", "job.toml", "--record", "--run-dir", "runs", "--set", "train.finish.steps=3000")
        folder, info = self.last_run()
        info["weights_sha256"] = 64 * "0"  # a replay to the end would fail
        with open(os.path.join(folder, "run.json"), "w", encoding="utf-8") as f:
            json.dump(info, f)
        self.ends_without_its_reader("troupe", "replay", "last", "--json", "--run-dir", "runs")

    def test_clients_of_a_cluster_detach_without_their_reader(self):
        if not os.path.exists(os.path.join(BIN, "trouped")):
            self.skipTest("trouped is not built")
        self.start_daemon("state")
        self.ends_without_its_reader("troupe", "train", "job.toml", "--cluster", "there.toml", "--json")
        self.ends_without_its_reader("troupe", "attach", "1", "--cluster", "there.toml", "--json")

    def start_daemon(self, state):
        if not os.path.exists(self.path("cluster.toml")):
            self.write("cluster.toml", '[cluster]\nname = "lab"\n[cluster.tls]\ndir = "certs"\n[[node]]\nname = "n1"\n'
                       'address = "127.0.0.1:0"\ndevices = ["cpu:0"]\nroles = ["coordinator", "worker", "server", "data"]\n')
            self.run_of("troupe", "init-cluster", "--cluster", "cluster.toml")
        daemon = self.start("trouped", "--cluster", "cluster.toml", "--node", "n1", "--state", state)
        self.write("there.toml", self.cluster_at(daemon.line().split(" control ")[1].split()[0]))
        return daemon

    def test_daemon(self):
        if not os.path.exists(os.path.join(BIN, "trouped")):
            self.skipTest("trouped is not built")
        for n, (signals, _) in enumerate(e for e in self.each() if signal.SIGHUP not in e[0]):
            daemon = self.start_daemon(f"state{n}")
            client = self.start("troupe", "train", "job.toml", "--cluster", "there.toml", "--json")
            client.until(lambda line: '"event":"step"' in line)
            client.process.kill()
            daemon.send(signals)
            self.assertEqual(daemon.end(), 0, daemon.errors())
            found = glob.glob(self.path(f"state{n}", "**", "*.safetensors"), recursive=True)
            self.assertTrue(found, daemon.errors())

    def cluster_at(self, address):
        with open(self.path("cluster.toml"), encoding="utf-8") as f:
            return f.read().replace("127.0.0.1:0", address)

    def test_python(self):
        if not os.environ.get("PYTHONPATH"):
            self.skipTest("the Python package is not built")
        self.write("train.py", PYTHON)
        for signals, code in self.each():
            c = self.start("/usr/bin/python3", "train.py", "job.toml")
            c.line()
            c.send(signals)
            self.assertEqual(c.end(), code, f"{signals}: {c.errors()}")
            if signal.SIGINT not in signals:  # Python raises KeyboardInterrupt for each
                self.assertEqual(c.lines[-1], "ended\n", f"{signals}: {c.errors()}")
            self.check_stopped_run()


def busy():
    while True:
        pass


def main():
    global BIN
    BIN = os.path.abspath(sys.argv[1])
    os.environ.pop("TROUPE_RUNS", None)
    load = [multiprocessing.Process(target=busy, daemon=True) for _ in range(2 * os.cpu_count())] if os.environ.get("TROUPE_ENDS_LOAD") else []
    for p in load:
        p.start()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)


if __name__ == "__main__":
    main()
