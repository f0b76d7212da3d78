"""The floating-point operations of a program, counted in its jaxpr.

The count is that of the program as it is written, before any compiler: it is the same on every
machine and repeats exactly. (Another version of JAX may write a derivative with an operation more
or less.) It goes with the implementation of a mechanism, for that is what runs: blocks that compute
what a mask hides count, positions of padding too, and what a backward pass computes again.

- Matrix products and convolutions count 2 for each multiplication with its addition; a convolution
  none where a tap falls on padding.
- Elementwise arithmetic and functions count 1 an element of what they return (so exp, tanh and +
  are alike), reductions and cumulative sums 1 an element of what they take, scattered sums 1 an
  element that is added.
- Fourier transforms of length n count 5 · n · log2(n), half of that from or to real numbers.
- Moving data, changing its type, communication, random bits, integers and comparisons count
  nothing, and neither does what no result depends on.

A scan counts as often as it runs, of a cond the dearest branch. How often a while loop runs is
known only once it does: its body counts once, and `Count.open_loops` says how many such there are.
(With bounds that are known, `fori_loop` is a scan.) In training there are two: the Newton steps of
`normalizers.entmax`, and the chunks of `models.token_loss` on CPUs. Those are one branch of a cond
whose other has no loop, and such a branch is preferred.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax import numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

_MOVES = frozenset(
    ("all_gather", "all_to_all", "axis_index", "bitcast_convert_type", "broadcast_in_dim",
     "concatenate", "convert_element_type", "copy", "copy_p", "device_put", "dynamic_slice",
     "dynamic_update_slice", "expand_dims", "gather", "imag", "iota", "optimization_barrier",
     "pad", "pbroadcast", "pcast", "pmax", "pmin", "ppermute", "psum", "psum2", "psum_invariant",
     "psum_scatter", "pvary", "real", "reduce_precision", "reduce_scatter", "reshard", "reshape",
     "rev", "scatter", "select_and_gather_add", "select_n", "sharding_constraint", "slice",
     "sort", "split", "squeeze", "stop_gradient", "top_k", "transpose")
)  # fmt: skip
_REDUCTIONS = frozenset(
    ("argmax", "argmin", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "reduce",
     "reduce_max", "reduce_min", "reduce_prod", "reduce_sum", "reduce_window",
     "reduce_window_max", "reduce_window_min", "reduce_window_sum", "select_and_scatter_add")
)  # fmt: skip
_SCATTERS = frozenset(
    ("scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max",
     "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")
)  # fmt: skip


class Count(NamedTuple):
    """Floating-point operations, and the while loops of which one turn alone is in them."""

    flops: int = 0
    open_loops: int = 0

    def __add__(self, other: object) -> Count:
        if not isinstance(other, Count):
            return NotImplemented
        return Count(self.flops + other.flops, self.open_loops + other.open_loops)

    def times(self, number: int) -> Count:
        """The same so many times."""
        return Count(self.flops * number, self.open_loops if number else 0)


def count(jaxpr: Any) -> Count:
    """Counts a jaxpr, open or closed, with all that it calls."""
    total, jaxpr = Count(), _open(jaxpr)
    for equation in _needed(jaxpr):
        total = total + _equation(equation)
    return total


def _needed(jaxpr: Jaxpr) -> Iterator[Any]:
    """Yields the equations that a result depends on, from the last to the first."""
    needed = {var for var in jaxpr.outvars if not isinstance(var, Literal)}
    for equation in reversed(jaxpr.eqns):
        if equation.effects or needed.intersection(equation.outvars):
            needed.update(var for var in equation.invars if not isinstance(var, Literal))
            yield equation


def _equation(equation: Any) -> Count:
    name = equation.primitive.name
    if name in _CALLS:
        return _CALLS[name](equation.params)
    floats = [var.aval for var in equation.outvars if _is_float(var.aval)]
    if name in _OPERATIONS:
        return Count(_OPERATIONS[name](equation)) if floats else Count()
    if name in _REDUCTIONS:
        return Count(_size(equation.invars[0].aval)) if floats else Count()
    if name in _SCATTERS:
        return Count(_size(equation.invars[2].aval)) if floats else Count()
    if name in _MOVES:
        return Count()
    inner = list(_jaxprs(equation.params))
    if inner:
        return sum(map(count, inner), Count())
    return Count(sum(map(_size, floats)))


# -- what calls other jaxprs -----------------------------------------------------------------------


def _scan(params: Any) -> Count:
    return count(params["jaxpr"]).times(params["length"])


def _cond(params: Any) -> Count:
    # Of ways that do the same, one without an open loop is known better.
    branches = map(count, params["branches"])
    return min(branches, key=lambda branch: (branch.open_loops, -branch.flops))


def _while(params: Any) -> Count:
    turn = count(params["cond_jaxpr"]) + count(params["body_jaxpr"])
    return turn + Count(0, 1)


def _shard_map(params: Any) -> Count:
    """Shapes are those of a device; the axes left to the compiler have global ones."""
    mesh = params["mesh"]
    axes = params.get("newly_manual_axes", params.get("manual_axes", mesh.axis_names))
    return count(params["jaxpr"]).times(math.prod(mesh.shape[axis] for axis in axes))


def _pmap(params: Any) -> Count:
    devices = params.get("global_axis_size") or params["axis_size"]
    return count(params["call_jaxpr"]).times(devices)


_CALLS: dict[str, Callable[[Any], Count]] = {
    "scan": _scan,
    "cond": _cond,
    "while": _while,
    "shard_map": _shard_map,
    "xla_pmap": _pmap,
}


def _jaxprs(params: Any) -> Iterator[Any]:
    """Yields the jaxprs among the parameters of an equation: of a call, a custom rule, a remat."""
    for value in params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            if isinstance(each, Jaxpr | ClosedJaxpr):
                yield each


def _open(jaxpr: Any) -> Jaxpr:
    return jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr


# -- what is more than one operation an element ----------------------------------------------------


def _dot_general(equation: Any) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return 2 * _size(equation.outvars[0].aval) * math.prod(left[axis] for axis in contracted)


def _convolution(equation: Any) -> int:
    left, right = (var.aval.shape for var in equation.invars)
    params, out = equation.params, equation.outvars[0].aval.shape
    numbers = params["dimension_numbers"]
    batch, features = (out[axis] for axis in numbers.out_spec[:2])
    taps = 1
    for axis, (left_axis, right_axis, out_axis) in enumerate(
        zip(numbers.lhs_spec[2:], numbers.rhs_spec[2:], numbers.out_spec[2:], strict=True)
    ):
        taps *= _taps(
            left[left_axis],
            right[right_axis],
            out[out_axis],
            stride=params["window_strides"][axis],
            before=params["padding"][axis][0],
            dilations=(params["lhs_dilation"][axis], params["rhs_dilation"][axis]),
        )
    # A kernel holds the inputs of its own group of features alone, and a group of the batch has a
    # share of the features.
    return 2 * batch * features * right[numbers.rhs_spec[1]] * taps


def _taps(
    size: int, kernel: int, out: int, *, stride: int, before: int, dilations: Sequence[int]
) -> int:
    """Counts, along one axis, the pairs of an output and a tap that meet an input, not padding."""
    spread, step = dilations
    starts = np.arange(out) * stride - before
    pairs = 0
    for tap in range(kernel):
        places = starts + tap * step
        inside = (places >= 0) & (places <= (size - 1) * spread) & (places % spread == 0)
        pairs += int(inside.sum())
    return pairs


def _fourier(equation: Any) -> int:
    ends = [equation.invars[0].aval, equation.outvars[0].aval]
    real = [aval for aval in ends if not jnp.issubdtype(aval.dtype, jnp.complexfloating)]
    length = math.prod(equation.params["fft_lengths"])
    return round((2.5 if real else 5) * _size([*real, *ends][0]) * math.log2(length))


_OPERATIONS: dict[str, Callable[[Any], int]] = {
    "dot_general": _dot_general,
    "conv_general_dilated": _convolution,
    "fft": _fourier,
}


def _size(aval: Any) -> int:
    return math.prod(aval.shape)


def _is_float(aval: Any) -> bool:
    dtype = getattr(aval, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jnp.inexact)
