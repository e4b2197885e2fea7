"""Layers in Python, for prototypes: a class, checked by check_layer, used in jobs by the name of its type.

Passes of such layers run one at a time, under Python's lock. A layer in C++ (docs/write-a-layer.md) has no such limit.
"""
from __future__ import annotations

from typing import Any, ClassVar, Mapping, Sequence, Type

from . import _troupe

Shape = tuple[int, ...]


class Pass:
    """One packet's pass through a layer. forward() may append arrays to `saved`; backward() of the same packet finds them there.

    training       False in tests
    step, seed, first_example   of the step's first example: the same for every placement, so random numbers may depend on them
    parameters     arrays, in the order of Layer.parameters()
    inputs, outputs   of forward(); only in backward()
    """

    def __init__(self, training: bool, step: int, seed: int, first_example: int) -> None:
        self.training = training
        self.step = step
        self.seed = seed
        self.first_example = first_example
        self.parameters: tuple[Any, ...] = ()
        self.inputs: tuple[Any, ...] = ()
        self.outputs: tuple[Any, ...] = ()
        self.saved: list[Any] = []


class Layer:
    """Base class of layers. Class attributes:

    type           name in job files; the class's name in lower case if it is empty
    inputs, outputs   their numbers
    differentiable   by input: whether it has a gradient (labels have none); the last entry holds for further inputs
    loss, metric   output 0 is a number to minimise (the mean over the packet), or to report in tests
    cases          for check_layer: lists of input shapes, or pairs (shapes, options)

    Every other public class attribute of type bool, int, float or str is an option of the layer, with its default. Arrays are
    arrays of NumPy, read-only, float32 in jobs and float64 in gradient checks; axis 0 counts examples. forward() is also called once
    with zeros, to learn how much it saves.
    """

    type: ClassVar[str] = ""
    inputs: ClassVar[int] = 1
    outputs: ClassVar[int] = 1
    differentiable: ClassVar[Sequence[bool]] = ()
    loss: ClassVar[bool] = False
    metric: ClassVar[bool] = False
    cases: ClassVar[Sequence[Any]] = ()

    def __init__(self, **options: Any) -> None:
        for name, value in options.items():
            setattr(self, name, value)

    def shapes(self, *inputs: Shape) -> Shape | list[Shape]:
        """The output's shape for these inputs; a list for several outputs. Raises ValueError if they do not fit."""
        return inputs[0]

    def parameters(self, *inputs: Shape) -> Mapping[str, Shape | Mapping[str, Any]]:
        """Shapes by name, or {"shape": ..., "filler": {"kind": "xavier"}}; zeros without a filler."""
        return {}

    def forward(self, pass_: Pass, *inputs: Any) -> Any:
        """The output, or a tuple of outputs."""
        raise NotImplementedError

    def backward(self, pass_: Pass, *grads: Any) -> Any:
        """From the gradients of the outputs: those of each input, then of each parameter; None for an input without one."""
        raise NotImplementedError

    @classmethod
    def type_name(cls) -> str:
        return cls.type or cls.__name__.lower()

    @classmethod
    def option_defaults(cls) -> dict[str, Any]:
        own = {n: v for c in reversed(cls.__mro__) if issubclass(c, Layer) and c is not Layer for n, v in vars(c).items()}
        fixed = vars(Layer)
        return {n: v for n, v in own.items() if not n.startswith("_") and n not in fixed and isinstance(v, (bool, int, float, str))}


def check_layer(cls: Type[Layer], *, samples: int = 100) -> list[str]:
    """Checks a layer on its `cases`, as `troupe check-layer` does: gradients against central differences, the contract of layers,
    f32 against f64. Returns the mistakes, one sentence each; an empty list if there are none.
    """
    return _troupe.check_layer(cls, samples)
