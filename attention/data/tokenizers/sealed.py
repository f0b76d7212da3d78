"""Files of a run that are refused once anything in them has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attention.errors import UserError

SEAL = "sha256"
DAMAGED = "it is damaged or not the one that the model was trained with; restore it, or train again"


def write_sealed(path: Path, fields: Mapping[str, Any]) -> None:
    """Writes the fields as JSON, with a sha256 of themselves."""
    # ASCII with escapes: whatever Unicode a text holds, also half a surrogate pair, comes back.
    path.write_text(json.dumps({**fields, SEAL: _seal(fields)}, indent=0), encoding="ascii")


def read_sealed(path: Path, *, kind: str | None = None) -> dict[str, Any]:
    """Reads what `write_sealed` wrote, without the seal.

    Args:
      kind: what the field `tokenizer` must be; None: there is no such field.

    Raises:
      UserError: naming the file, where it is missing, altered, or of another tokenizer.
    """
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the tokenizer '{path}': {error}") from None
    if not isinstance(fields, dict) or fields.pop(SEAL, None) != _seal(fields):
        raise UserError(f"cannot read the tokenizer '{path}': {DAMAGED}")
    found = fields.pop("tokenizer", None)
    if found != kind:
        raise UserError(f"'{path}' is of data.tokenizer={found!r}, not of {kind!r}")
    return fields


def _seal(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
