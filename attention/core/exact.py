"""The options that every variant of the exact family has."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from attention import normalizers
from attention.core import implementations
from attention.errors import UserError
from attention.ops.option_checks import check_choice, check_count, check_number, refuse
from attention.ops.window import make_window

SECTION = "model.attention"
SMALLEST_CAP = 1e-6  # scores divided by it are far from the end of float32
QK_NORMS = ("none", "rms", "layer")


OF_ALL_SCORES = "choose variant=scaled_dot to set it"
BY_PLACE = "who sees whom by place is this variant's own; choose variant=sliding_window to set it"


def fixed(value: Any, instead: str = OF_ALL_SCORES) -> Any:
    """Declares an option that the variant's name decides: any other value contradicts it.

    Args:
        value: the one that it has.
        instead: why, and what to do, for the message.
    """
    return field(default=value, metadata={"fixed": True, "instead": instead})


@dataclass(frozen=True)
class ExactConfig:
    """Options of the exact core, set under `model.attention`.

    A field's `metadata` may have "examples", values worth trying for the tests of every variant
    that has the field; "small", a value for tests of a few tokens in place of the default; and
    "layer": True where only the layer reads the option, and `attend` does not take it.

    Attributes:
        normalizer: what makes weights of scores: one of `attention.normalizers`.
        alpha: α of normalizer="entmax", in (1, 2].
        num_kv_heads: key and value heads, each serving num_heads / num_kv_heads query heads that
            follow each other (arXiv 1911.02150, 2305.13245); None = num_heads.
        softcap: c of c·tanh(e/c), which bounds the scores (arXiv 2408.00118); None = none.
        qk_norm: queries and keys normalized over each head, with a learned gain: "none", "rms"
            or "layer" (arXiv 2010.04245, 2302.05442).
        window: keys seen on each side, w or (left, right), the query itself not counted; None =
            all (arXiv 2004.05150).
        implementation: "plain": all scores at once; "chunked": in blocks of queries, memory linear
            in the length; "auto": by a measured table. Never changes a result.
        block_size: queries a block, where there are blocks; None = what the table says.

    Raises:
        UserError: a value that is not allowed, or contradicts the variant's name.
    """

    normalizer: str = field(default="softmax", metadata={"examples": ("sink", "relu2")})
    alpha: float = 1.5
    num_kv_heads: int | None = field(default=None, metadata={"examples": (1, 2), "layer": True})
    softcap: float | None = field(default=None, metadata={"examples": (0.9,)})
    qk_norm: str = field(default="none", metadata={"examples": ("rms", "layer"), "layer": True})
    window: int | tuple[int, int] | None = field(default=None, metadata={"examples": ((3, 1),)})
    implementation: str = field(default="auto", metadata={"examples": ("chunked",)})
    block_size: int | None = field(default=None, metadata={"examples": (4,)})

    def __post_init__(self) -> None:
        if isinstance(self.window, list):  # as JSON has it; a list cannot be hashed
            object.__setattr__(self, "window", tuple(self.window))
        self._check_fixed()
        normalizers.get(self.normalizer)
        check_number(f"{SECTION}.alpha", self.alpha)
        if self.alpha != 1.5 and self.normalizer != "entmax":
            raise UserError(
                f"model.attention.alpha={self.alpha} is read only with normalizer='entmax', "
                f"not with {self.normalizer!r}"
            )
        if not 1.0 < self.alpha <= 2.0:
            refuse(f"{SECTION}.alpha", self.alpha, "a number in (1, 2]")
        check_count(f"{SECTION}.num_kv_heads", self.num_kv_heads, or_none=True)
        check_number(f"{SECTION}.softcap", self.softcap, least=SMALLEST_CAP, or_none=True)
        check_choice(f"{SECTION}.qk_norm", self.qk_norm, QK_NORMS)
        if self.window is not None:
            make_window(self.window, causal=False)
        check_count(f"{SECTION}.block_size", self.block_size, or_none=True)
        implementations.check(self.implementation)

    def kv_heads(self, num_heads: int) -> int:
        """Returns the number of key heads; raises UserError unless it divides the query heads."""
        count = num_heads if self.num_kv_heads is None else self.num_kv_heads
        if count < 1 or num_heads % count:
            raise UserError(
                f"num_kv_heads={count} must divide num_heads={num_heads}: "
                f"change model.attention.num_kv_heads or model.num_heads"
            )
        return count

    def _check_fixed(self) -> None:
        for option in dataclasses.fields(self):
            value = getattr(self, option.name)
            if option.metadata.get("fixed") and value != option.default:
                raise UserError(
                    f"{SECTION}.{option.name}={value!r} contradicts this variant, which is "
                    f"the one with {option.name}={option.default!r}: {option.metadata['instead']}"
                )
