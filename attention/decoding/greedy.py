"""Greedy decoding: the most probable token at each step."""

from __future__ import annotations

from jaxtyping import Array, Int

from attention.decoding.decoded import Decoded, State, Step
from attention.decoding.largest import largest
from attention.decoding.rollout import rollout


def greedy(
    step: Step,
    state: State,
    *,
    start: Int[Array, " b"],
    limits: Int[Array, " b"],
    max_length: int,
    eos: int,
    pad: int,
    forbidden: tuple[int, ...] = (),
) -> Decoded:
    """Decodes the most probable token at each step, ties to the lower id.

    One `lax.while_loop`, which ends with the last row. Call it inside `jit`: outside, it is
    compiled anew at each call.

    Args:
        step: see `decoded.Step`.
        state: before the first step, the batch leading every leaf.
        start: what the first step reads, such as BOS; it is not among the tokens.
        limits: the most tokens of each row, EOS included, at most `max_length` (more is cut to
            it). A row that gets there without EOS keeps all its tokens; 0 gives an empty one.
        max_length: the width of the result.
        eos: the id that ends a row, kept as its last token. Where it is forbidden, every row
            runs to its limit.
        pad: what follows a row's end; never decoded. May lie outside the vocabulary.
        forbidden: ids that are never decoded. Their probability is not given to others.

    Returns:
        tokens [b max_length], lengths [b], scores [b]. A row's result depends on no other row.
        Where logits are NaN or +inf, or nothing is possible, the row ends before that step and its
        score is NaN.

    Raises:
        UserError: decode.max_length below 1, pad equal to eos, no token left that is allowed.
    """
    return rollout(
        step,
        state,
        lambda logits, _: largest(logits, 1)[1][:, 0],
        start=start,
        limits=limits,
        max_length=max_length,
        eos=eos,
        pad=pad,
        forbidden=forbidden,
    )
