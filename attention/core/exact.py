"""The options that every variant of the exact family has."""

from dataclasses import dataclass, field

from attention.errors import UserError


@dataclass(frozen=True)
class ExactConfig:
    """Options of the exact core, set under `model.attention`.

    `metadata["examples"]` of a field names values worth trying, for the tests of every variant that
    has the field.

    Attributes:
        num_kv_heads: key and value heads, each serving num_heads / num_kv_heads query heads that
            follow each other (arXiv 1911.02150, 2305.13245); None = num_heads.
    """

    num_kv_heads: int | None = field(default=None, metadata={"examples": (1, 2)})

    def kv_heads(self, num_heads: int) -> int:
        """Returns the number of key heads; raises UserError unless it divides the query heads."""
        count = num_heads if self.num_kv_heads is None else self.num_kv_heads
        if count < 1 or num_heads % count:
            raise UserError(
                f"num_kv_heads={count} must divide num_heads={num_heads}: "
                f"change model.attention.num_kv_heads or model.num_heads"
            )
        return count
