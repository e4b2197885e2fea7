import unittest

import numpy

import troupe
from helpers import LENET, InFolder, cli, small_arrays, small_job, small_tables


class Jobs(InFolder):
    def test_reads_a_job_file_with_overrides(self):
        job = troupe.Job(LENET, overrides={"layer.ip1.outputs": 77, "job.name": "mine"})
        self.assertEqual(job.name, "mine")
        self.assertEqual(job.parameters["ip1.weight"][0], 77)
        self.assertEqual(job.example, (1, 28, 28))
        self.assertEqual(job.sizes, (60000, 10000))
        self.assertEqual(job.classes, 10)

    def test_makes_the_job_that_the_same_file_makes(self):
        job = small_job()
        again = troupe.Job(self.write("small.toml", job.toml))
        self.assertEqual(again.parameters, job.parameters)
        self.assertEqual(troupe.train(again, run_dir=False).weights_sha256, troupe.train(job, run_dir=False).weights_sha256)

    def test_its_text_is_accepted_by_the_command_line(self):
        self.assertIn("small", cli("troupe", "check", self.write("small.toml", small_job().toml)))

    def test_overrides_take_every_kind_of_value(self):
        job = troupe.Job(overrides={"train.dynamics": {"rule": "momentum", "momentum": 0.5, "lr": 0.05}, "pipeline.fuse_layers": False,
                                    "layer.hidden.lr_scale": [1.0, 2.0], "job.name": "it's \"quoted\""}, **small_tables())
        self.assertEqual(job.name, "it's \"quoted\"")
        self.assertIn("momentum = 0.5", job.toml)
        self.assertIn("fuse_layers = false", job.toml)
        self.assertIn("lr_scale = [1.0, 2.0]", job.toml.replace("[ 1", "[1"))

    def test_overrides_are_also_a_list_of_texts(self):
        self.assertEqual(troupe.Job(overrides=["job.name=other"], **small_tables()).name, "other")
        with self.assertRaisesRegex(TypeError, "a dict"):
            troupe.Job(LENET, overrides="job.name=other")

    def test_names_every_mistake_with_its_place(self):
        file = self.write("bad.toml", "[data]\nsource = \"synthetic\"\n\n[[layer]]\nname = \"a\"\ntype = \"liner\"\n\n[train]\n")
        with self.assertRaises(troupe.JobError) as caught:
            troupe.Job(file)
        mistakes = caught.exception.mistakes
        self.assertGreaterEqual(len(mistakes), 2)
        self.assertEqual((mistakes[0].file, mistakes[0].line), (file, 6))
        self.assertIn("did you mean 'linear'?", mistakes[0].message)
        self.assertIn(f"{file}:6:", str(caught.exception))
        self.assertIsInstance(caught.exception, ValueError)

    def test_names_of_other_programs_have_troupes_name_in_the_error(self):
        with self.assertRaisesRegex(AttributeError, r"troupe has no attribute 'fit'; Troupe calls it 'train'"):
            troupe.fit
        with self.assertRaisesRegex(AttributeError, r"Job has no attribute 'fit'; write troupe.train\(job, ...\)"):
            troupe.Job(**small_tables()).fit
        self.assertFalse(hasattr(troupe.Job(**small_tables()), "no_such_thing"))
        tables = small_tables()
        tables["layer"][0]["type"] = "Dense"
        with self.assertRaisesRegex(troupe.JobError, "unknown layer type 'Dense'; Troupe calls it 'linear'"):
            troupe.Job(**tables)

    def test_says_that_a_file_is_missing(self):
        with self.assertRaisesRegex(troupe.JobError, "nowhere.toml.*no such file"):
            troupe.Job(self.path("nowhere.toml"))

    def test_takes_a_file_or_tables(self):
        with self.assertRaises(TypeError):
            troupe.Job()
        with self.assertRaises(TypeError):
            troupe.Job(LENET, data={})

    def test_trains_on_arrays(self):
        x, y = small_arrays()
        tables = {**small_tables(epochs=20), "data": {"source": "arrays", "batch": 20}}
        job = troupe.Job(arrays={"x_train": x[:100], "y_train": y[:100], "x_test": x[100:], "y_test": y[100:]}, **tables)
        self.assertEqual((job.example, job.classes, job.sizes), ((8,), 3, (100, 20)))
        self.assertGreater(troupe.train(job, run_dir=False).accuracy, 0.9)

    def test_arrays_train_as_their_files_do(self):
        x, y = small_arrays()
        numpy.savez(self.path("a.npz"), x_train=x, y_train=y)
        tables = {k: v for k, v in small_tables().items() if k != "eval"}
        of_arrays = troupe.Job(arrays={"x_train": x, "y_train": y}, **{**tables, "data": {"source": "arrays", "batch": 20}})
        files = {"source": "numpy", "path": self.path("a.npz"), "test_data": "", "batch": 20}
        of_files = troupe.Job(**{**tables, "data": files})
        self.assertEqual(troupe.train(of_arrays, run_dir=False).weights_sha256, troupe.train(of_files, run_dir=False).weights_sha256)

    def test_takes_arrays_in_any_layout(self):
        x, y = small_arrays()
        tables = {k: v for k, v in small_tables().items() if k != "eval"}
        hashes = set()
        for a in (x, numpy.asfortranarray(x), numpy.repeat(x, 2, axis=1)[:, ::2], x.tolist()):
            a = a if not isinstance(a, list) else numpy.array(a, dtype=numpy.float32)
            job = troupe.Job(arrays={"x_train": a, "y_train": y}, **{**tables, "data": {"source": "arrays", "batch": 20}})
            hashes.add(troupe.train(job, run_dir=False).weights_sha256)
        self.assertEqual(len(hashes), 1)

    def test_says_which_arrays_it_has(self):
        x, y = small_arrays()
        with self.assertRaisesRegex(troupe.JobError, "there is no array 'mine'; the job was given 'x_train', 'y_train'"):
            troupe.Job(arrays={"x_train": x, "y_train": y}, **{**small_tables(), "data": {"source": "arrays", "data": "mine", "batch": 20}})
        with self.assertRaisesRegex(troupe.JobError, "x_train"):
            troupe.Job(arrays={"x_train": "words", "y_train": y}, **{**small_tables(), "data": {"source": "arrays", "batch": 20}})

    def test_initial_weights_are_those_of_the_fillers(self):
        begin = small_job().initial_weights()
        self.assertEqual(begin["hidden.weight"].shape, (16, 8))
        self.assertTrue((begin["hidden.bias"].numpy() == 0).all())
        self.assertGreater(begin["hidden.weight"].numpy().std(), 0.1)


class Tensors(InFolder):
    def setUp(self):
        super().setUp()
        self.weights = troupe.train(small_job(), run_dir=False).weights

    def test_numpy_is_a_view(self):
        w = self.weights["hidden.weight"]
        a, b = w.numpy(), w.numpy()
        self.assertEqual(a.ctypes.data, b.ctypes.data)
        self.assertEqual((a.shape, a.dtype, w.dtype, len(w)), ((16, 8), numpy.float32, "float32", 16))
        with self.assertRaises(ValueError):
            a[0, 0] = 1

    def test_a_view_outlives_the_tensor(self):
        a = self.weights["hidden.weight"].numpy()
        before = a.copy()
        del self.weights
        troupe.train(small_job(), run_dir=False)
        numpy.testing.assert_array_equal(a, before)

    def test_dlpack_shares_the_memory(self):
        import torch
        w = self.weights["scores.weight"]
        self.assertEqual(torch.from_dlpack(w).data_ptr(), w.numpy().ctypes.data)
        self.assertEqual(numpy.from_dlpack(w).ctypes.data, w.numpy().ctypes.data)

    def test_is_an_array(self):
        w = self.weights["scores.weight"]
        self.assertEqual(numpy.asarray(w, dtype=numpy.float64).dtype, numpy.float64)
        numpy.testing.assert_array_equal(numpy.array(w), w.numpy())
        self.assertEqual(repr(w), "Tensor(3x16, float32)")

    def test_files_keep_arrays(self):
        file = self.path("a.safetensors")
        draw = numpy.random.default_rng(1)
        given = {"x": draw.normal(size=(3, 4)).astype(numpy.float32), "y": draw.normal(size=(2,)), "w": self.weights["hidden.weight"]}
        troupe.write_safetensors(file, given)
        back = troupe.read_safetensors(file)
        for name, value in given.items():
            numpy.testing.assert_array_equal(back[name].numpy(), numpy.asarray(value))
        with self.assertRaisesRegex(troupe.JobError, "none.safetensors"):
            troupe.read_safetensors(self.path("none.safetensors"))


if __name__ == "__main__":
    unittest.main()
