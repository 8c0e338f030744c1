"""A policy as an ONNX graph, for any runtime; the number of observations in a batch is free.

Inputs and outputs go by name: `observation` (n, ...); `action` (n, ...), the most likely one, as the action space has
it; `logits` (n, k), or `mean` and `std` (n, k) of what is drawn before it is brought within bounds.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cisr.core.version import __version__
from cisr.export.policy import HEAD, SPREAD, Array, PolicyDescription

OPSET, IR_VERSION = 17, 8
"""Of 2022: old enough for runtimes on small devices."""
TYPES = {"real": TensorProto.FLOAT, "integer": TensorProto.INT64, "byte": TensorProto.UINT8}


def onnx_model(policy: PolicyDescription, name: str = "student") -> onnx.ModelProto:
    """The graph of a policy, checked by ONNX."""
    about, graph = policy.about, _Graph(policy.arrays)
    seen, actions = about["observation"], about["actions"]
    x = "observation"
    for what, *how in about["steps"]:
        x = graph.step(what, how, x)
    head = graph.dense(HEAD, x)
    n = len(actions["low"]) if actions["kind"] == "box" else sum(actions["n"])
    outputs = [_value("logits" if actions["kind"] == "discrete" else "mean", TensorProto.FLOAT, [n])]
    graph.node("Identity", [head], outputs[0].name)
    if actions["kind"] == "discrete":
        action, kind = graph.choices(head, actions), TensorProto.INT64
    else:
        action, kind = graph.within(head, actions), TensorProto.FLOAT
        if (spread := graph.spread(x, head, actions)) is not None:
            graph.node("Exp", [spread], "std")
            outputs.append(_value("std", TensorProto.FLOAT, [n]))
    graph.node("Reshape", [action, graph.whole([-1, *actions["shape"]])], "action")
    outputs.insert(0, _value("action", kind, actions["shape"]))
    given = [_value("observation", TYPES[seen["kind"]], seen["shape"])]
    made = helper.make_graph(graph.nodes, name, given, outputs, initializer=graph.constants)
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(
        made, opset_imports=opset, ir_version=IR_VERSION, producer_name="cisr", producer_version=__version__
    )
    helper.set_model_props(model, {"cisr": json.dumps(about)})
    onnx.checker.check_model(model, full_check=True)
    return model


def _value(name: str, kind: int, shape: list[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, ["n", *shape])


class _Graph:
    """Nodes so far; each method adds some and returns the name of what they give."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._arrays = arrays

    def node(self, operator: str, inputs: list[str], name: str | None = None, **attributes: Any) -> str:
        name = name or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, array: Array) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def numbers(self, *values: float) -> list[str]:
        """Single ones."""
        return [self.constant(np.array(value, np.float32)) for value in values]

    def whole(self, values: list[int]) -> str:
        return self.constant(np.array(values, np.int64))

    def step(self, what: str, how: list[Any], x: str) -> str:
        """See `numpy_policy.py`."""
        match what:
            case "one-hot":
                start, n = how
                column = self.node("Reshape", [x, self.whole([-1, 1])])
                hot = self.node("Equal", [column, self.whole(list(range(start, start + n)))])
                return self.node("Cast", [hot], to=TensorProto.FLOAT)
            case "divide":
                return self.node("Div", [self.node("Cast", [x], to=TensorProto.FLOAT), *self.numbers(how[0])])
            case "normalise":
                mean, std = (self.constant(self._arrays[f"observation.{name}"]) for name in ("mean", "std"))
                scaled = self.node("Div", [self.node("Sub", [x, mean]), std])
                return self.node("Clip", [scaled, *self.numbers(-how[0], how[0])])
            case "flatten":
                return self.node("Flatten", [x], axis=1)
            case "dense":
                return self.dense(how[0], x)
            case "convolve":
                return self.convolve(how[0], how[1], how[2], x)
        return self.node({"relu": "Relu", "tanh": "Tanh", "elu": "Elu"}[what], [x])

    def dense(self, name: str, x: str) -> str:
        weight, bias = (self.constant(self._arrays[f"{name}.{part}"]) for part in ("weight", "bias"))
        return self.node("Gemm", [x, weight, bias])

    def convolve(self, name: str, size: int, stride: int, x: str) -> str:
        """ONNX has channels before height and width; runtimes cancel what is transposed twice."""
        weight, bias = self._arrays[f"{name}.weight"], self._arrays[f"{name}.bias"]
        kernel = weight.reshape(size, size, -1, weight.shape[1]).transpose(3, 2, 0, 1)
        x = self.node("Transpose", [x], perm=[0, 3, 1, 2])
        x = self.node("Conv", [x, self.constant(kernel), self.constant(bias)], strides=[stride, stride])
        return self.node("Transpose", [x], perm=[0, 2, 3, 1])

    def choices(self, logits: str, actions: dict[str, Any]) -> str:
        """The most likely option of each choice (n, k), as the space numbers them."""
        ends = np.cumsum([0, *actions["n"]]).tolist()
        axis = self.whole([1])
        each = []
        for first, end in pairwise(ends):
            part = self.node("Slice", [logits, self.whole([first]), self.whole([end]), axis])
            each.append(self.node("ArgMax", [part], axis=1, keepdims=1))
        return self.node("Add", [self.node("Concat", each, axis=1), self.whole(actions["start"])])

    def within(self, mean: str, actions: dict[str, Any]) -> str:
        """The mean, brought within the bounds of the space."""
        low, high = (
            np.array([other if x is None else x for x in actions[end]], np.float32)
            for end, other in (("low", -np.inf), ("high", np.inf))
        )
        if not actions["squashed"]:
            return self.node("Min", [self.node("Max", [mean, self.constant(low)]), self.constant(high)])
        scaled = self.node("Mul", [self.node("Tanh", [mean]), self.constant((high - low) / 2)])
        return self.node("Add", [scaled, self.constant(low + (high - low) / 2)])

    def spread(self, features: str, mean: str, actions: dict[str, Any]) -> str | None:
        """The logarithms of standard deviations (n, k); None where nothing is drawn."""
        if SPREAD in self._arrays:
            return self.node("Expand", [self.constant(self._arrays[SPREAD]), self.node("Shape", [mean])])
        if f"{SPREAD}.weight" not in self._arrays:
            return None
        return self.node("Clip", [self.dense(SPREAD, features), *self.numbers(*actions["log_std_range"])])
