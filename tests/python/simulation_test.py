import json
import os
import unittest

import troupe
from helpers import SOURCE, InFolder, cli, small_job

JOB = os.path.join(SOURCE, "configs/jobs/lenet_synthetic.toml")


class Simulations(InFolder):
    def test_gives_the_weights_of_training(self):
        job = small_job(steps=12)
        simulation = troupe.Simulation(job, nodes=1)
        self.assertEqual(simulation.run()[-1].event, "done")
        self.assertEqual(simulation.weights_sha256, troupe.train(job, run_dir=False).weights_sha256)

    def test_is_that_of_the_command_line(self):
        simulation = troupe.Simulation(JOB, nodes=4, seed=7, maths="none", steps=5)
        simulation.run()
        lines = cli("troupe", "sim", JOB, "--nodes", "4", "--seed", "7", "--maths", "none", "--steps", "5", "--json").splitlines()
        done = [json.loads(line) for line in lines][-1]
        self.assertEqual(simulation.trace_sha256, done["trace_sha256"])
        self.assertAlmostEqual(simulation.seconds, done["virtual_seconds"])

    def test_is_an_iterator_that_can_be_left(self):
        steps = []
        for event in troupe.Simulation(small_job(steps=10000), nodes=3):
            if event.event == "step":
                steps.append(event.time)
            if len(steps) == 5:
                break
        self.assertEqual(steps, sorted(steps))

    def test_events_have_virtual_times_and_equal_seeds_equal_events(self):
        twice = [troupe.Simulation(small_job(steps=5), nodes=3, seed=9).run() for _ in range(2)]
        self.assertEqual(*twice)
        self.assertTrue(all(a.time <= b.time for a, b in zip(twice[0], twice[0][1:])))

    def test_a_killed_daemon_is_recovered_from_with_the_same_weights(self):
        faults = self.write("faults.toml", '[[fault]]\nkind = "kill"\nnodes = [2]\nfrom = "50us"\nrestart_after = "1s"\n')
        calm, hit = (troupe.Simulation(small_job(steps=30), nodes=3, **more) for more in ({}, {"faults": faults}))
        self.assertNotIn("recovered", [e.event for e in calm])
        kinds = [e.event for e in hit]
        self.assertIn("fault", kinds)
        self.assertIn("recovered", kinds)
        self.assertEqual(hit.weights_sha256, calm.weights_sha256)

    def test_wants_nodes(self):
        with self.assertRaisesRegex(troupe.JobError, "nodes"):
            troupe.Simulation(JOB)


if __name__ == "__main__":
    unittest.main()
