import unittest

import numpy

import troupe
from helpers import InFolder, small_job, small_tables


class Swish(troupe.Layer):
    """y = x sigmoid(beta x)."""

    beta = 1.0
    cases = [[(1, 1)], [(3, 5)], [(2, 3, 4, 5)], ([(4, 4)], {"beta": 3.0}), ([(2, 7)], {"beta": 0.0})]

    def forward(self, pass_, x):
        gate = 1 / (1 + numpy.exp(-self.beta * x))
        pass_.saved.append(gate)
        return x * gate

    def backward(self, pass_, dy):
        (x,), gate = pass_.inputs, pass_.saved[0]
        return dy * (gate + self.beta * x * gate * (1 - gate))


class WrongSwish(Swish):
    type = "wrong_swish"

    def backward(self, pass_, dy):
        return dy * pass_.saved[0]


class Affine(troupe.Layer):
    """y = x W + b, with two parameters."""

    type = "py_affine"
    units = 4
    cases = [[(1, 1)], [(5, 3)], ([(2, 6)], {"units": 1}), ([(3, 2)], {"units": 9}), [(4, 4)]]

    def shapes(self, x):
        if len(x) != 2:
            raise ValueError(f"expects [N, D], got {x}")
        return (x[0], self.units)

    def parameters(self, x):
        return {"weight": {"shape": (x[1], self.units), "filler": {"kind": "msra"}}, "bias": (self.units,)}

    def forward(self, pass_, x):
        w, b = pass_.parameters
        return x @ w + b

    def backward(self, pass_, dy):
        w, _ = pass_.parameters
        (x,) = pass_.inputs
        return dy @ w.T, x.T @ dy, dy.sum(axis=0)


class Two(troupe.Layer):
    """The sum and the difference of two inputs."""

    type = "sum_and_difference"
    inputs = 2
    outputs = 2
    cases = [[(1, 1), (1, 1)], [(3, 5), (3, 5)], [(2, 3), (2, 3)], [(4, 2, 2), (4, 2, 2)], [(1, 7), (1, 7)]]

    def shapes(self, a, b):
        return [a, b]

    def forward(self, pass_, a, b):
        return a + b, a - b

    def backward(self, pass_, ds, dd):
        return ds + dd, ds - dd


class SquareLoss(troupe.Layer):
    """The mean over examples of the sum of squares."""

    type = "square_loss"
    loss = True
    cases = [[(1, 1)], [(3, 5)], [(2, 2, 2)], [(7, 1)], [(4, 3)]]

    def shapes(self, x):
        return ()

    def forward(self, pass_, x):
        return numpy.array((x * x).sum() / len(x))

    def backward(self, pass_, dloss):
        (x,) = pass_.inputs
        return dloss * 2 * x / len(x)


def with_layer(kind, **options):
    tables = small_tables(epochs=4)
    tables["layer"][1] = {"name": "act", "type": kind, "inputs": ["hidden"], **options}
    return tables


class Layers(InFolder):
    def test_check_layer_accepts_right_layers(self):
        for cls in (Swish, Affine, Two, SquareLoss):
            self.assertEqual(troupe.check_layer(cls), [], cls.__name__)

    def test_check_layer_finds_a_wrong_gradient(self):
        found = troupe.check_layer(WrongSwish)
        self.assertTrue(found)
        self.assertIn("gradient", found[0])
        self.assertIn("case 1", found[0])

    def test_check_layer_wants_cases(self):
        class Bare(Swish):
            cases = []

        self.assertEqual(troupe.check_layer(Bare), ["the class has no cases to check: cases = [[(2, 3)], ...]"])

    def test_trains_as_the_same_layer_in_cpp(self):
        class Half(troupe.Layer):
            type = "py_relu"

            def forward(self, pass_, x):
                return numpy.maximum(x, 0)

            def backward(self, pass_, dy):
                return dy * (pass_.outputs[0] > 0)

        mine = troupe.train(troupe.Job(layers=[Half], **with_layer("py_relu")), run_dir=False)
        stock = troupe.train(troupe.Job(**with_layer("relu")), run_dir=False)
        self.assertEqual(mine.weights_sha256, stock.weights_sha256)

    def test_parameters_of_a_class_learn(self):
        job = troupe.Job(layers=[Affine], **with_layer("py_affine", units=6))
        self.assertEqual(job.parameters["act.weight"], (16, 6))
        begin = {n: w.numpy().copy() for n, w in job.initial_weights().items()}
        result = troupe.train(job, run_dir=False)
        self.assertGreater(abs(result.weights["act.weight"].numpy() - begin["act.weight"]).max(), 1e-3)
        self.assertGreater(result.accuracy, 0.5)

    def test_weights_do_not_depend_on_packets_in_flight(self):
        hashes = set()
        for solvers in (1, 2, 4):
            job = troupe.Job(layers=[Swish], overrides={"pipeline.packets": 4, "pipeline.sub_solvers": solvers}, **with_layer("swish"))
            hashes.add(troupe.train(job, run_dir=False, threads=2).weights_sha256)
        self.assertEqual(len(hashes), 1)

    def test_predicts_and_simulates(self):
        job = troupe.Job(layers=[Swish], **with_layer("swish", beta=2.0))
        result = troupe.train(job, run_dir=False)
        self.assertEqual(troupe.Predictor(job, result.weights)(numpy.zeros((3, 8), numpy.float32)).shape, (3, 3))
        self.assertEqual(troupe.Simulation(job, nodes=2, steps=3).run()[-1].event, "done")

    def test_options_are_checked(self):
        with self.assertRaisesRegex(troupe.JobError, "unknown key 'betta'.*did you mean 'beta'"):
            troupe.Job(layers=[Swish], **with_layer("swish", betta=2.0))
        with self.assertRaisesRegex(troupe.JobError, "beta"):
            troupe.Job(layers=[Swish], **with_layer("swish", beta="steep"))

    def test_a_wrong_shape_names_the_layer(self):
        tables = with_layer("py_affine")
        tables["data"]["shape"] = [2, 2, 2]
        tables["layer"][1]["inputs"] = ["data"]
        tables["layer"] = tables["layer"][1:]
        with self.assertRaisesRegex(troupe.JobError, r"layer 'act'.*py_affine.shapes\(\): ValueError: expects \[N, D\]"):
            troupe.Job(layers=[Affine], **tables)

    def test_an_exception_of_forward_ends_the_run_with_its_text(self):
        class Breaks(Swish):
            type = "breaks"

            def forward(self, pass_, x):
                raise ZeroDivisionError("at step 0")

        with self.assertRaisesRegex(troupe.TrainingError, r"breaks.forward\(\): ZeroDivisionError: at step 0"):
            troupe.train(troupe.Job(layers=[Breaks], **with_layer("breaks")), run_dir=False)

    def test_a_result_of_a_wrong_shape_is_refused(self):
        class Short(Swish):
            type = "short"

            def forward(self, pass_, x):
                return x[:, :1]

        with self.assertRaisesRegex(troupe.TrainingError, r"short.forward\(\): output 0 has the shape .*, expected "):
            troupe.train(troupe.Job(layers=[Short], **with_layer("short")), run_dir=False)

    def test_a_name_that_is_taken_is_refused(self):
        class Relu(Swish):
            pass

        with self.assertRaisesRegex(troupe.JobError, "already a layer type 'relu'"):
            troupe.Job(layers=[Relu], **small_tables())


if __name__ == "__main__":
    unittest.main()
