import unittest

import numpy

import troupe
from helpers import InFolder, small_job


class History(InFolder):
    def setUp(self):
        super().setUp()
        self.seen = []
        self.result = troupe.train(small_job(), run_dir=self.folder, on_step=lambda e: self.seen.append(e.loss))

    def test_lists_runs_by_number(self):
        troupe.train(small_job(), run_dir=self.folder)
        self.assertEqual([r.number for r in troupe.runs(self.folder)], [1, 2])
        self.assertEqual(troupe.runs(self.path("none")), [])

    def test_finds_a_run_by_number_name_and_place(self):
        for word in (1, "1", "1-small", "small", "last", self.result.run.folder):
            self.assertEqual(troupe.run(word, self.folder).number, 1)
        with self.assertRaisesRegex(troupe.JobError, "9"):
            troupe.run(9, self.folder)

    def test_has_the_facts_of_the_run(self):
        run = self.result.run
        self.assertEqual((run.name, run.state, run.steps, run.seed), ("small", "done", 20, 3))
        self.assertEqual(run.weights_sha256, self.result.weights_sha256)
        with self.assertRaisesRegex(AttributeError, "a run has no 'stepps'; it has .*steps"):
            run.stepps

    def test_curves_are_those_of_the_events(self):
        steps, values = self.result.run.curve("loss")
        self.assertEqual(steps, list(range(1, 21)))
        numpy.testing.assert_allclose(values, self.seen, rtol=1e-6)
        self.assertEqual(self.result.run.curve("accuracy")[0], [5, 10, 15, 20])
        with self.assertRaisesRegex(KeyError, "there is no metric"):
            self.result.run.curve("los")

    def test_has_events_and_weights(self):
        self.assertIn("done", [e["event"] for e in self.result.run.events()])
        last = self.result.run.weights("last")
        for name, w in self.result.weights.items():
            numpy.testing.assert_array_equal(last[name].numpy(), w.numpy())
        with self.assertRaises(ValueError):
            self.result.run.weights("newest")


if __name__ == "__main__":
    unittest.main()
