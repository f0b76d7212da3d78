"""The options that every variant of the exact family has."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from attention import normalizers
from attention.core import implementations
from attention.errors import UserError, did_you_mean
from attention.ops.window import make_window

QK_NORMS = ("none", "rms", "layer")


def fixed(value: Any) -> Any:
    """Declares an option that the variant's name decides: any other value contradicts it."""
    return field(default=value, metadata={"fixed": True})


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
        block_size: queries a block; None = what the table says.

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
        allowed = (float, int) if self.normalizer == "entmax" else ()
        if self.alpha != 1.5 and self.normalizer != "entmax":
            raise UserError(
                f"model.attention.alpha={self.alpha} is read only with normalizer='entmax', "
                f"not with {self.normalizer!r}"
            )
        if allowed and (not isinstance(self.alpha, allowed) or not 1.0 < self.alpha <= 2.0):
            raise UserError(f"model.attention.alpha={self.alpha!r}: expected a number in (1, 2]")
        if self.softcap is not None and not self.softcap > 0:
            raise UserError(f"model.attention.softcap={self.softcap}: expected a number above 0")
        if self.qk_norm not in QK_NORMS:
            raise UserError(
                f"model.attention.qk_norm={self.qk_norm!r} is not one of {', '.join(QK_NORMS)}"
                f"{did_you_mean(self.qk_norm, QK_NORMS)}"
            )
        if self.window is not None:
            make_window(self.window, causal=False)
        if self.block_size is not None and self.block_size < 1:
            raise UserError(
                f"model.attention.block_size={self.block_size}: expected an int of 1 or more"
            )
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
                    f"model.attention.{option.name}={value!r} contradicts this variant, which is "
                    f"the one with {option.name}={option.default!r}: choose variant=scaled_dot "
                    f"to set {option.name}"
                )
