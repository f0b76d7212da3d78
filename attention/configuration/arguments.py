"""Config arguments: the `key=value,...` after the colon of `--config=configs/x.py:...`."""

from __future__ import annotations

from attention.errors import UserError


def parse_argument(text: str) -> dict[str, str]:
    """Splits "variant=linear,size=tiny" into {"variant": "linear", "size": "tiny"}.

    Raises:
      UserError: if a part has no `=`, or a key comes twice.
    """
    values: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise UserError(
                f"config argument {part!r}: expected key=value pairs separated by commas, "
                "such as variant=scaled_dot,size=tiny"
            )
        if key in values:
            raise UserError(f"config argument {text!r}: {key!r} is given twice")
        values[key] = value
    return values


def merge_arguments(base: str, over: str) -> str:
    """Returns the argument `base` with the keys of `over` set, key by key."""
    if not over:
        return base
    merged = parse_argument(base) | parse_argument(over)
    return ",".join(f"{key}={value}" for key, value in merged.items())
