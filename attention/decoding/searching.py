"""From a sequence-to-sequence model and its source to decoded targets, searched for or drawn."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from attention.decoding.arguments import (
    check_beam,
    check_one_way,
    check_sampling,
    check_search,
)
from attention.decoding.beam import beam, length_penalties
from attention.decoding.decoded import Decoded, State, Step
from attention.decoding.greedy import greedy
from attention.decoding.rows import repeat_rows
from attention.decoding.sampling import sample


class Search(NamedTuple):
    """How targets are searched for, or drawn.

    Attributes:
        bos, eos, pad: ids that begin, end and fill a target.
        max_length: the most tokens of a target, EOS included.
        beam_size: hypotheses kept at each step; 1 = greedy.
        length_penalty: α of ((5 + length) / 6)^α, by which scores are divided (arXiv 1609.08144).
        num_best: hypotheses returned, the best first; of draws, so many of each source.
        temperature: 0 searches; above it, tokens are drawn from softmax(logits / temperature), and
            beam_size must be 1.
        top_k: draw from that many most probable tokens; 0 = all.
        top_p: draw from the fewest whose probabilities sum to this; 1 = all.
        seed: what whoever makes the keys of draws makes them of.
        use_cache: whether a step computes the newest token alone; else the whole target anew, which
            any causal layer can do.
    """

    bos: int
    eos: int
    pad: int
    max_length: int
    beam_size: int = 1
    length_penalty: float = 0.0
    num_best: int = 1
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    use_cache: bool = True

    @property
    def width(self) -> int:
        """Rows that are decoded for each source."""
        return self.num_best if self.temperature else self.beam_size


def search_of(decode: Any, *, bos: int, eos: int, pad: int, num_best: int = 1) -> Search:
    """Returns what the section `decode` of a config asks for."""
    return Search(
        bos=bos,
        eos=eos,
        pad=pad,
        max_length=decode.max_length,
        beam_size=decode.beam_size,
        length_penalty=decode.length_penalty,
        num_best=num_best,
        use_cache=decode.use_cache,
        # A run from before there were these has none.
        temperature=decode.get("temperature", 0.0),
        top_k=decode.get("top_k", 0),
        top_p=decode.get("top_p", 1.0),
        seed=decode.get("seed", 0),
    )


def check_how(how: Search) -> None:
    """Raises UserError where nothing can be searched for, or drawn, in this way."""
    check_search(max_length=how.max_length, eos=how.eos, pad=how.pad)
    check_one_way(temperature=how.temperature, beam_size=how.beam_size)
    if how.temperature:
        check_sampling(temperature=how.temperature, top_k=how.top_k or None, top_p=how.top_p)
    elif how.beam_size > 1 or how.num_best > 1:
        check_beam(
            beam_size=how.beam_size,
            num_best=how.num_best,
            length_penalty=how.length_penalty,
            max_length=how.max_length,
        )


def search(
    model: Any,
    source: Int[Array, "b s"],
    *,
    segment_ids: Int[Array, "b s"],
    positions: Int[Array, "b s"] | None = None,
    how: Search,
    keys: Array | None = None,
) -> Decoded:
    """Decodes targets for each source, one a row; tokens are [b num_best max_length].

    Args:
        model: has `encode`, `start` and `step`, and a full pass as its call (`models.transformer`).
        source, segment_ids, positions: one source a row, its ids 1 and 0 behind it. A row without
            one gets no token.
        how: the kind of search.
        keys: of `jax.random.key`, one a row [b], where targets are drawn. The m-th draw of a source
            depends on its key, m and the model's numbers, not on the rows beside it.

    Raises:
        UserError: an impossible `how`.
    """
    check_how(how)
    limits = jnp.where(jnp.any(segment_ids != 0, axis=1), how.max_length, 0).astype(jnp.int32)
    given: dict[str, Any] = {
        "start": jnp.full(limits.shape, how.bos, jnp.int32),
        "limits": limits,
        "max_length": how.max_length,
        "eos": how.eos,
        "pad": how.pad,
        "forbidden": (how.pad, how.bos),
    }
    make = _by_cache if how.use_cache else _by_full_pass
    step, state = make(model, source, segment_ids, positions, how)
    if how.temperature:
        return _drawn(step, state, how, keys, given)
    if how.beam_size > 1 or how.num_best > 1:
        return beam(
            step,
            state,
            beam_size=how.beam_size,
            length_penalty=how.length_penalty,
            num_best=how.num_best,
            **given,
        )
    found = greedy(step, state, **given)
    # As a beam of one says it.
    divisors = length_penalties(how.max_length, how.length_penalty)[found.lengths]
    found = found._replace(scores=found.scores / divisors)
    return jax.tree.map(lambda leaf: leaf[:, None], found)


def _drawn(
    step: Step, state: State, how: Search, keys: Array | None, given: dict[str, Any]
) -> Decoded:
    """Draws `num_best` targets a source, in no order but that of the draws."""
    if keys is None:
        raise ValueError("decode.temperature is above 0: drawing needs keys, one a row")
    count, batch = how.num_best, keys.shape[0]
    each = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))(keys, jnp.arange(count))
    repeated = repeat_rows({name: given[name] for name in ("start", "limits")}, count)
    found = sample(
        step,
        state,
        key=each.reshape(batch * count),
        temperature=how.temperature,
        top_k=how.top_k or None,
        top_p=how.top_p,
        **{**given, **repeated},
    )
    return jax.tree.map(lambda leaf: leaf.reshape(batch, count, *leaf.shape[1:]), found)


def _by_cache(model: Any, source, segment_ids, positions, how: Search) -> tuple[Step, State]:
    """A step reads the newest token; the state is the model's."""
    memory = model.encode(source, segment_ids=segment_ids, positions=positions)
    memory = repeat_rows(memory, how.width)
    return (
        lambda state, tokens: model.step(memory, state, tokens),
        model.start(memory, how.max_length),
    )


def _by_full_pass(model: Any, source, segment_ids, positions, how: Search) -> tuple[Step, State]:
    """A step reads the whole target so far, which is the state."""
    source, segment_ids, positions = repeat_rows((source, segment_ids, positions), how.width)
    row = jnp.arange(source.shape[0])
    # Known while it is compiled, so that a table of positions that ends before can say so.
    places: Any = np.arange(how.max_length, dtype=np.int32)[None]

    def step(state, tokens):
        inputs, count = state
        inputs = inputs.at[row, count].set(tokens)
        logits = model(
            source,
            inputs,
            source_segment_ids=segment_ids,
            target_segment_ids=jnp.ones_like(inputs),
            source_positions=positions,
            target_positions=places,
        )
        newest = jnp.take_along_axis(logits, count[:, None, None], axis=1)[:, 0]
        return newest, (inputs, count + 1)

    nothing = jnp.full((source.shape[0], how.max_length), how.pad, jnp.int32)
    return step, (nothing, jnp.zeros((source.shape[0],), jnp.int32))
