import locale
import os
import signal
import subprocess
import sys
import threading
import unittest

import numpy

import troupe
from helpers import BIN, LENET, InFolder, cli, small_job, small_tables


class Training(InFolder):
    def test_gives_the_weights_of_the_command_line(self):
        steps = ["--set", "train.finish.steps=30"]
        printed = cli("troupe", "train", LENET, *steps, "--threads", "2")
        result = troupe.train(LENET, overrides={"train.finish.steps": 30}, threads=2, run_dir=False, on_step=lambda e: e.loss)
        self.assertIn(result.weights_sha256, printed)
        self.assertIn(f"{result.accuracy:.4f}", printed)

    def test_calls_back_with_every_step_and_evaluation(self):
        steps, evaluations, kinds = [], [], []
        thread = threading.get_ident()
        result = troupe.train(small_job(), run_dir=False, on_step=lambda e: steps.append((e.step, e.loss, threading.get_ident())),
                              on_eval=lambda e: evaluations.append((e.step, e.accuracy)), on_event=lambda e: kinds.append(e.event))
        self.assertEqual([s for s, *_ in steps], list(range(1, 21)))
        self.assertEqual({t for *_, t in steps}, {thread})
        self.assertEqual([s for s, _ in evaluations], [5, 10, 15, 20])
        self.assertEqual(result.accuracy, evaluations[-1][1])
        self.assertLess(steps[-1][1], steps[0][1])
        self.assertEqual(kinds.count("step"), 20)
        self.assertEqual(kinds[-1], "done")

    def test_stops_when_a_callback_says_so(self):
        result = troupe.train(small_job(steps=100000), run_dir=False, on_step=lambda e: e.step == 7 and e.run.stop())
        self.assertTrue(result.stopped)
        self.assertGreaterEqual(result.steps, 7)
        self.assertLess(result.steps, 100000)

    def test_raises_what_a_callback_raises(self):
        def fails(event):
            if event.step == 5:
                raise KeyError("mine")

        with self.assertRaises(KeyError):
            troupe.train(small_job(steps=100000), run_dir=False, on_step=fails)

    def test_a_step_has_no_accuracy(self):
        with self.assertRaisesRegex(AttributeError, "a step event has no 'accuracy'; it has event, step, loss"):
            troupe.train(small_job(), run_dir=False, on_step=lambda e: e.accuracy)

    def test_interrupt_leaves_a_checkpoint_that_continues_to_the_same_weights(self):
        whole = troupe.train(small_job(steps=8000), run_dir=False)
        with self.assertRaises(KeyboardInterrupt):
            troupe.train(small_job(steps=8000), run_dir=self.folder, on_step=lambda e: e.step == 50 and os.kill(os.getpid(), signal.SIGINT))
        run = troupe.run("last", self.folder)
        self.assertEqual(run.state, "stopped")
        rest = troupe.train(small_job(steps=8000), run_dir=False, resume=run.folder / "checkpoints")
        self.assertEqual(rest.weights_sha256, whole.weights_sha256)

    # In processes of their own: the signals end them.
    def test_termination_leaves_a_checkpoint_and_ends_with_the_code_of_the_signal(self):
        program = ("import troupe; from helpers import small_job; "
                   f"troupe.train(small_job(steps=10**8), run_dir={self.folder!r}, on_step=lambda e: print(e.step, flush=True))")
        for number, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                                  preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)) as p:
                self.assertEqual(p.stdout.readline(), "1\n")
                p.send_signal(number)
                p.send_signal(number)
                p.stdout.read()
                self.assertEqual(p.wait(60), code)
            run = troupe.run("last", self.folder)
            self.assertEqual(run.state, "stopped")
            self.assertTrue(os.listdir(run.folder / "checkpoints"))

    # Python ignores a SystemExit of another thread, so the signals keep their effect.
    def test_termination_ends_a_program_that_trains_on_another_thread(self):
        program = ("import threading, troupe; from helpers import small_job; "
                   "t = threading.Thread(target=lambda: troupe.train(small_job(steps=10**8), run_dir=False, "
                   "on_step=lambda e: print(e.step, flush=True))); t.start(); t.join(); print('survived')")
        for number in (signal.SIGTERM, signal.SIGHUP):
            with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                                  preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)) as p:
                self.assertEqual(p.stdout.readline(), "1\n")
                p.send_signal(number)
                self.assertNotIn("survived", p.stdout.read())
                self.assertEqual(p.wait(60), -number)

    def test_termination_ends_a_program_whose_weights_cannot_be_written(self):
        program = ("import os, signal, troupe; from helpers import small_job\n"
                   "def at_the_end(e):\n"
                   "    if e.event == 'done':\n"
                   "        os.mkdir(e.run.folder + '/last.safetensors')\n"
                   "        os.kill(os.getpid(), signal.SIGTERM)\n"
                   f"troupe.train(small_job(), run_dir={self.folder!r}, on_event=at_the_end)")
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=250, check=False)
        self.assertEqual(ended.returncode, 143, ended.stderr)
        self.assertIn("last.safetensors", ended.stderr)

    def test_termination_ends_a_program_whose_callback_fails(self):
        program = ("import os, signal, troupe; from helpers import small_job\n"
                   "def fails(e):\n"
                   "    os.kill(os.getpid(), signal.SIGTERM)\n"
                   "    raise KeyError('mine')\n"
                   "troupe.train(small_job(steps=10**8), run_dir=False, on_step=fails)")
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=250, check=False)
        self.assertEqual(ended.returncode, 143, ended.stderr)
        self.assertIn("KeyError: 'mine'", ended.stderr)

    def test_tells_its_end_to_a_client_that_stops_it(self):
        for answer, expected in (([], " stopped at step "), (["--json"], '"state":"stopped"')):
            clients = []

            def ask(event):
                if not clients:
                    words = [os.path.join(BIN, "troupe"), "repl", str(event.run.folder), "-c", "stop", *answer]
                    clients.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

            result = troupe.train(small_job(steps=10**8), run_dir=self.folder, on_step=ask)
            self.assertTrue(result.stopped)
            said, wrong = clients[0].communicate(timeout=60)
            self.assertEqual(clients[0].returncode, 0, wrong)
            self.assertIn(expected, said)

    def test_checkpoints_go_to_the_folder_that_the_job_names(self):
        tables = small_tables(steps=20)
        tables["checkpoint"] = {"dir": self.path("kept"), "every": 10}
        troupe.train(troupe.Job(**tables), run_dir=False)
        kept = [f for _, _, files in os.walk(self.path("kept")) for f in files if f.endswith(".safetensors")]
        self.assertEqual(sorted(f.split("-step-")[1] for f in kept), ["10.safetensors", "20.safetensors"])

    def test_decimal_commas_of_the_program_do_not_reach_files(self):
        made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", self.path("de_DE.UTF-8")], capture_output=True, check=False)
        os.environ["LOCPATH"] = self.folder
        self.addCleanup(os.environ.pop, "LOCPATH")
        self.addCleanup(locale.setlocale, locale.LC_ALL, locale.setlocale(locale.LC_ALL))
        try:
            locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
        except locale.Error:
            self.skipTest(f"localedef cannot make de_DE.UTF-8: {made.stderr}")
        result = troupe.train(small_job(), run_dir=self.path("runs"))
        with open(result.run.folder / "metrics.csv", encoding="utf-8") as f:
            lines = f.read().splitlines()
        self.assertEqual({line.count(",") for line in lines}, {lines[0].count(",")})
        self.assertEqual(len(result.run.curve("loss")[0]), 20)

    def test_begins_with_weights(self):
        first = troupe.train(small_job(), run_dir=False)
        file = self.path("w.safetensors")
        first.save(file)
        of_file = troupe.train(small_job(), run_dir=False, weights=file)
        of_arrays = troupe.train(small_job(), run_dir=False, weights={n: w.numpy() for n, w in first.weights.items()})
        of_tensors = troupe.train(small_job(), run_dir=False, weights=first.weights)
        self.assertEqual(of_file.weights_sha256, of_arrays.weights_sha256)
        self.assertEqual(of_file.weights_sha256, of_tensors.weights_sha256)
        self.assertNotEqual(of_file.weights_sha256, first.weights_sha256)

    def test_refuses_weights_of_another_shape(self):
        first = troupe.train(small_job(), run_dir=False)
        wrong = {n: w.numpy() for n, w in first.weights.items()}
        wrong["scores.weight"] = numpy.zeros((4, 16), numpy.float32)
        with self.assertRaisesRegex(troupe.JobError, "scores.weight.*4x16"):
            troupe.train(small_job(), run_dir=False, weights=wrong)
        with self.assertRaises(TypeError):
            troupe.train(small_job(), weights=wrong, resume="x")

    def test_trains_a_job_twice(self):
        job = small_job()
        self.assertEqual(troupe.train(job, run_dir=False).weights_sha256, troupe.train(job, run_dir=False).weights_sha256)

    # The job does not wait for callbacks, so these tests have jobs that are longer than the queue of events.
    def test_sets_numbers_and_modes_while_it_runs(self):
        said = []

        def steer(event):
            if event.step == 10:
                event.run.set("train.dynamics.lr", 0.001)
                event.run.mode("ssp", staleness=2)
                event.run.checkpoint()
                event.run.evaluate()
            if event.lr == 0.001 and {"set", "mode", "checkpoint"} <= {e.event for e in said}:
                event.run.stop()

        result = troupe.train(small_job(steps=10**6), run_dir=self.folder, on_step=steer, on_event=said.append)
        self.assertTrue(result.stopped)
        saved = [e for e in said if e.event == "checkpoint"]
        self.assertTrue(os.path.isfile(saved[-1].file))

    def test_pauses_until_another_thread_resumes(self):
        timers = []

        def pause(event):
            if event.step == 5 and not timers:
                event.run.pause()
                timers.append(threading.Timer(0.05, event.run.resume))
                timers[0].start()

        result = troupe.train(small_job(steps=30), run_dir=False, on_step=pause)
        self.assertEqual(result.steps, 30)

    def test_says_why_a_run_failed(self):
        tables = small_tables(steps=50)
        tables["train"]["dynamics"]["lr"] = 1e30
        with self.assertRaisesRegex(troupe.TrainingError, "not finite"):
            troupe.train(troupe.Job(**tables), run_dir=False)

    def test_keeps_a_run_folder_that_the_command_line_reads(self):
        result = troupe.train(small_job(), run_dir=self.folder)
        self.assertTrue((result.run.folder / "last.safetensors").is_file())
        self.assertIn("small", cli("troupe", "runs", "--run-dir", self.folder))
        again = troupe.Predictor(result.run)(numpy.zeros((2, 8), numpy.float32))
        self.assertEqual(again.shape, (2, 3))

    def test_several_threads_train_at_once(self):
        results = {}

        def one(k):
            results[k] = troupe.train(small_job(), run_dir=False, threads=1).weights_sha256

        threads = [threading.Thread(target=one, args=(k,)) for k in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(set(results.values())), 1)

    def test_serves_a_page(self):
        import urllib.request
        pages = []

        def look(event):
            if event.step == 3 and not pages:
                with open(os.path.join(event.run.folder, "page.token")) as f:
                    asked = urllib.request.Request(event.run.page_url, headers={"Authorization": "Bearer " + f.read().strip()})
                pages.append(urllib.request.urlopen(asked, timeout=10).read().decode())

        troupe.train(small_job(), run_dir=self.folder, page=0, on_step=look)
        self.assertIn("Troupe", pages[0])


if __name__ == "__main__":
    unittest.main()
