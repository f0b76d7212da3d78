"""Checks of what a search is asked for; each message names the config key to change."""

from __future__ import annotations

import math

from attention.errors import UserError


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def check_count(key: str, value: object) -> None:
    """Raises UserError unless the value of decode.KEY is an integer of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"decode.{key} is {value!r}; it must be an integer of at least 1")


def check_search(*, max_length: int, eos: int, pad: int) -> None:
    """Checks what every search needs.

    Raises:
        UserError: a length below 1, or one id for the end and for padding, with which nobody
            could tell a hypothesis that ended from one that was cut.
    """
    check_count("max_length", max_length)
    if pad == eos:
        raise UserError(
            f"the tokenizer has id {eos} for both padding and the end of a sequence (decode.pad "
            "and decode.eos); they must differ"
        )


def check_vocabulary(size: int, *, eos: int, forbidden: tuple[int, ...]) -> None:
    """Raises UserError where EOS is no token, or where every token is forbidden."""
    if not 0 <= eos < size:
        raise UserError(f"decode.eos is {eos}; the model's vocabulary has ids 0 to {size - 1}")
    if set(range(size)) <= set(forbidden):
        raise UserError(f"decode.forbidden holds all {size} tokens; at least one must be allowed")


def check_beam(*, beam_size: int, num_best: int, length_penalty: float, max_length: int) -> None:
    """Checks what a beam search needs besides.

    Raises:
        UserError: a size below 1, more hypotheses than beams, or a length penalty that is no
            number or leaves float32 within `max_length` tokens.
    """
    check_count("beam_size", beam_size)
    check_count("num_best", num_best)
    if num_best > beam_size:
        raise UserError(
            f"decode.num_best is {num_best}; it must not exceed decode.beam_size, {beam_size}"
        )
    if not _is_number(length_penalty):
        raise UserError(f"decode.length_penalty is {length_penalty!r}; it must be a finite number")
    # Compared as logarithms: the power itself may overflow. 80 stays clear of float32's 87.
    if abs(length_penalty) * math.log((5 + max_length) / 6) > 80:
        raise UserError(
            f"decode.length_penalty is {length_penalty!r}; ((5 + {max_length}) / 6) to that power "
            "is beyond float32: take one nearer to 0"
        )


def check_sampling(*, temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Checks what sampling needs besides.

    Raises:
        UserError: a negative temperature, top_k below 1, top_p outside (0, 1].
    """
    if not _is_number(temperature) or temperature < 0:
        raise UserError(
            f"decode.temperature is {temperature!r}; it must be a finite number of at least 0 "
            "(0 is greedy)"
        )
    if top_k is not None:
        check_count("top_k", top_k)
    if top_p is not None and not (_is_number(top_p) and 0 < top_p <= 1):
        raise UserError(f"decode.top_p is {top_p!r}; it must be in (0, 1] (1 keeps every token)")


def check_one_way(*, temperature: float, beam_size: int) -> None:
    """Raises UserError where targets are to be both drawn and searched for."""
    if temperature and beam_size != 1:
        raise UserError(
            f"decode.temperature={temperature} draws targets, and decode.beam_size={beam_size} "
            "searches for them: set decode.beam_size to 1, or decode.temperature to 0"
        )
