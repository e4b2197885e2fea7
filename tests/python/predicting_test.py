import csv
import io
import unittest

import numpy

import troupe
from helpers import LENET, InFolder, cli, small_arrays, small_job, small_tables


class Predicting(InFolder):
    def setUp(self):
        super().setUp()
        x, y = small_arrays()
        self.x, self.y = x[100:], y[100:]
        tables = {**small_tables(epochs=20), "data": {"source": "arrays", "batch": 20}}
        self.job = troupe.Job(arrays={"x_train": x[:100], "y_train": y[:100], "x_test": self.x, "y_test": self.y}, **tables)
        self.result = troupe.train(self.job, run_dir=False)
        self.net = troupe.Predictor(self.job, self.result.weights)

    def test_classes_have_the_accuracy_of_the_evaluation(self):
        self.assertAlmostEqual((self.net.classes(self.x) == self.y).mean(), self.result.accuracy)

    def test_outputs_are_those_of_the_formula(self):
        w = {n: t.numpy().astype(numpy.float64) for n, t in self.result.weights.items()}
        hidden = numpy.maximum(self.x @ w["hidden.weight"].T + w["hidden.bias"], 0)
        scores = hidden @ w["scores.weight"].T + w["scores.bias"]
        numpy.testing.assert_allclose(self.net(self.x), scores, atol=1e-5)
        numpy.testing.assert_allclose(troupe.Predictor(self.job, self.result.weights, layer="act")(self.x), hidden, atol=1e-5)
        p = self.net.probabilities(self.x)
        numpy.testing.assert_allclose(p.sum(axis=1), 1)
        numpy.testing.assert_array_equal(p.argmax(axis=1), self.net.classes(self.x))

    def test_any_number_of_examples(self):
        whole = self.net(self.x)
        for n in (1, 3, 20):
            numpy.testing.assert_array_equal(self.net(self.x[:n]), whole[:n])

    def test_bytes_are_scaled_as_in_training(self):
        images = numpy.random.default_rng(1).integers(0, 256, (6, 28, 28), dtype=numpy.uint8)
        weights = troupe.Job(LENET).initial_weights()
        net = troupe.Predictor(LENET, weights)
        numpy.testing.assert_allclose(net(images), net(images.astype(numpy.float32) / 255), atol=1e-5)
        numpy.testing.assert_allclose(net(images), net(images.astype(numpy.float32), raw=True), atol=1e-5)

    def test_raw_floats_are_scaled_as_the_arrays_of_the_job(self):
        tables = {**small_tables(epochs=1), "data": {"source": "arrays", "test_data": "", "batch": 20, "scale": 0.5, "mean": 1.0}}
        job = troupe.Job(arrays={"x_train": self.x, "y_train": self.y}, **tables)
        net = troupe.Predictor(job, job.initial_weights())
        numpy.testing.assert_allclose(net(self.x, raw=True), net(self.x * 0.5 - 1), atol=1e-5)

    def test_the_order_of_channels_is_that_of_the_data(self):
        self.assertEqual(self.net.channel_order, "rgb")
        tables = {**small_tables(epochs=1), "data": {"source": "arrays", "test_data": "", "batch": 20, "channel_order": "bgr"}}
        job = troupe.Job(arrays={"x_train": self.x, "y_train": self.y}, **tables)
        self.assertEqual(job.channel_order, "bgr")
        self.assertEqual(troupe.Predictor(job, job.initial_weights()).channel_order, "bgr")

    def test_plugins_of_a_run_are_loaded_only_if_the_caller_says_so(self):
        run = troupe.train(small_job(steps=2), run_dir=self.path("runs")).run
        with open(self.path("plugin.so"), "w") as file:
            file.write("not a library")
        text = run.job_file.read_text()
        run.job_file.write_text(f'plugins = ["{self.path("plugin.so")}"]\n' + text.replace("plugins = []\n", ""))
        with self.assertRaisesRegex(troupe.JobError, "load_plugins=True"):
            troupe.Predictor(run)
        with self.assertRaisesRegex(troupe.JobError, "invalid ELF header|too short"):
            troupe.Predictor(run, load_plugins=True)
        with self.assertRaisesRegex(troupe.JobError, "load_plugins=True"):
            troupe.Job(run.job_file, load_plugins=False)

    def test_agrees_with_the_command_line(self):
        images = numpy.random.default_rng(2).integers(0, 256, (5, 28, 28), dtype=numpy.uint8)
        numpy.save(self.path("images.npy"), images)
        troupe.write_safetensors(self.path("w.safetensors"), troupe.Job(LENET).initial_weights())
        printed = cli("troupe", "predict", LENET, "--weights", self.path("w.safetensors"), "--all", self.path("images.npy"))
        rows = list(csv.DictReader(io.StringIO(printed)))
        net = troupe.Predictor(LENET, self.path("w.safetensors"))
        wanted = [[float(r[f"probability_{k}"]) for k in range(10)] for r in rows]
        numpy.testing.assert_allclose(net.probabilities(images), wanted, atol=1e-5)

    def test_names_both_shapes_when_an_example_does_not_fit(self):
        with self.assertRaisesRegex(troupe.JobError, "the array: .*5.*8"):
            self.net(numpy.zeros((2, 5), numpy.float32))

    def test_float_labels_are_targets_and_predictions_values(self):
        rng = numpy.random.default_rng(4)
        x = rng.normal(size=(100, 3)).astype(numpy.float32)
        y = (x @ [1.0, -2.0, 0.5] + 3).astype(numpy.float32)
        tables = dict(
            data={"source": "arrays", "test_data": "", "batch": 20, "validation": 0.2},
            layer=[{"name": "out", "type": "linear", "inputs": ["data"], "outputs": 1}, {"name": "loss", "type": "euclidean", "inputs": ["out", "label"]}],
            train={"dynamics": {"rule": "sgd", "lr": 0.2}, "finish": {"epochs": 40}})
        job = troupe.Job(arrays={"x_train": x, "y_train": y}, **tables)
        self.assertTrue(job.targets)
        self.assertEqual((job.classes, job.sizes), (0, (80, 20)))
        net = troupe.Predictor(job, troupe.train(job, run_dir=False).weights)
        numpy.testing.assert_allclose(net(x)[:, 0], y, atol=1e-3)
        with self.assertRaisesRegex(TypeError, "predicts numbers"):
            net.classes(x)
        tables["layer"][1]["type"] = "softmax_loss"
        with self.assertRaisesRegex(troupe.JobError, "'label' .20x1. of source 'arrays' holds target values"):
            troupe.Job(arrays={"x_train": x, "y_train": y}, **tables).classes

    def test_needs_weights(self):
        with self.assertRaisesRegex(TypeError, "give weights"):
            troupe.Predictor(self.job)

    def test_numbers_have_no_classes(self):
        net = troupe.Predictor(self.job, self.result.weights, layer="hidden")
        with self.assertRaises(TypeError):
            net.classes(self.x)
        with self.assertRaises(TypeError):
            net.probabilities(self.x)

    def test_predict_is_one_call(self):
        numpy.testing.assert_array_equal(troupe.predict(self.job, self.x, self.result.weights), self.net(self.x))


if __name__ == "__main__":
    unittest.main()
