import os
import socket
import subprocess
import sys
import unittest

import numpy

import troupe
from helpers import BIN, InFolder, cli, small_arrays, small_job, small_tables


def free_ports(n):
    held = [socket.socket() for _ in range(n)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


class Cluster(InFolder):
    def setUp(self):
        super().setUp()
        self.ports = free_ports(2)
        nodes = "".join(f'[[node]]\nname = "n{k}"\naddress = "127.0.0.1:{p}"\n' for k, p in enumerate(self.ports, 1))
        self.cluster = self.write("cluster.toml", f'[cluster]\nname = "c"\ntls = {{ dir = "tls" }}\n{nodes}')
        cli("troupe", "init-cluster", "--cluster", self.cluster)
        self.daemons = []
        for k in (1, 2):
            words = [os.path.join(BIN, "trouped"), "--cluster", self.cluster, "--node", f"n{k}", "--state", self.path(f"state{k}")]
            with open(self.path(f"n{k}.log"), "w") as log:
                self.daemons.append(subprocess.Popen(words, stdout=log, stderr=log))
        self.addCleanup(self.end)

    def end(self):
        for d in self.daemons:
            d.terminate()
        for d in self.daemons:
            d.wait(timeout=30)

    def test_submits_follows_and_fetches(self):
        tables = small_tables(steps=40)
        tables["topology"] = {"workers_per_group": 2}
        tables["pipeline"] = {"packets": 4}
        job = troupe.Job(**tables)
        here = troupe.train(job, run_dir=False)
        sent = troupe.submit(job, self.cluster)
        self.assertGreater(sent.number, 0)
        kinds = []
        sent.follow(on_event=lambda e: kinds.append(e.event))
        self.assertEqual(sent.state, "done")
        self.assertIn("done", kinds)
        out = self.path("w.safetensors")
        self.assertEqual(troupe.attach(sent.number, self.cluster).fetch(out), here.weights_sha256)
        numpy.testing.assert_array_equal(troupe.read_safetensors(out)["scores.bias"].numpy(), here.weights["scores.bias"].numpy())

    def test_an_exception_of_a_callback_leaves_the_job_running(self):
        sent = troupe.submit(small_job(steps=1000000), self.cluster)

        def fails(event):
            raise RuntimeError("enough")

        with self.assertRaisesRegex(RuntimeError, "enough"):
            sent.follow(on_step=fails)
        self.assertIn("run", cli("troupe", "jobs", "--cluster", self.cluster))
        cli("troupe", "repl", "--cluster", self.cluster, "-c", f"stop {sent.number}")

    def test_a_refused_job_is_a_job_error(self):
        with self.assertRaisesRegex(troupe.JobError, "no file|place|n9"):
            tables = small_tables()
            tables["layer"][0]["place"] = "n9"
            job = self.write("bad.toml", troupe.Job(**small_tables()).toml.replace('name = "hidden"', 'name = "hidden"\nplace = "n9"'))
            troupe.submit(job, self.cluster)

    def test_arrays_and_classes_stay_here(self):
        x, y = small_arrays()
        tables = {k: v for k, v in small_tables().items() if k != "eval"}
        job = troupe.Job(arrays={"x_train": x, "y_train": y}, **{**tables, "data": {"source": "arrays", "batch": 20}})
        with self.assertRaisesRegex(TypeError, "neither the arrays"):
            troupe.submit(job, self.cluster)

    def test_two_ranks_average_through_a_daemon(self):
        program = ("import array, sys\nfrom troupe.exchange import Session\n"
                   "rank = int(sys.argv[1])\nvalues = array.array('f', [rank, 10 * rank])\n"
                   f"with Session('127.0.0.1:{self.ports[0]}', {self.path('tls')!r} + '/' + sys.argv[2], 'demo', rank, 2) as s:\n"
                   "    s.all_reduce('v', values, 'mean')\nprint(list(values))\n")
        folder = "client" if os.path.isdir(self.path("tls/client")) else "."
        ranks = [subprocess.Popen([sys.executable, "-c", program, str(k), folder], stdout=subprocess.PIPE, text=True) for k in (0, 1)]
        self.assertEqual([r.communicate(timeout=60)[0].strip() for r in ranks], ["[0.5, 5.0]"] * 2)


if __name__ == "__main__":
    unittest.main()
