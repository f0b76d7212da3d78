"""A recurrent decoder that attends to what an encoder made of the source, step by step.

Neural Machine Translation by Jointly Learning to Align and Translate (Bahdanau et al. 2014), arXiv
1409.0473; Effective Approaches to Attention-based Neural Machine Translation (Luong et al. 2015),
arXiv 1508.04025. Without attention, the context is the same at each step, a fixed vector: Learning
Phrase Representations using RNN Encoder-Decoder (Cho et al. 2014), arXiv 1406.1078.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention.core.dropout import Dropout
from attention.core.linear import Linear
from attention.models.recurrence import Cell, RecurrentConfig, ends, step_product
from attention.models.recurrent_state import Outcome, Random, RecurrentState, Step
from attention.ops import recurrence, runs
from attention.ops.products import affine


class RecurrentDecoder(nnx.Module):
    """Cells on top of each other, one attention, and the vector that output is made from.

    With y the embedded token before, s the states of the cells (s^top the last one's), c the
    context that attention reads from the source:

    "bahdanau": c = attention(s^top), of the states before; s = cells([y; c], s);
    output = maxout(W [s^top; c; y]), the larger of two features each (appendix A.2.2; there made
    from the states before).
    "luong": s = cells([y; h~], s), with the last h~ ("input feeding"); c = attention(s^top);
    h~ = tanh(W [c; s^top]) is the output.

    The attention's projections of values and output stand between the source and c. States start
    from both ends of the encoder's: tanh(W [there at the last token; back at the first]).
    """

    def __init__(
        self,
        config: RecurrentConfig,
        make_attention: Callable[[int, nnx.Rngs], nnx.Module] | None,
        *,
        rngs: nnx.Rngs,
    ):
        """Makes the decoder.

        Args:
            config: sizes and options.
            make_attention: (layer index, rngs) → a layer for cross-attention, of width dim and with
                a context of width dim, that can decode; None = no attention.
            rngs: for the initial parameters.
        """
        self.config = config
        dim, kind = config.dim, recurrence.CELLS[config.cell]
        widths = [2 * dim, *[dim] * (config.num_layers - 1)]
        self.cells = nnx.List([Cell(config.cell, width, dim, rngs=rngs) for width in widths])
        self.initial = Linear(dim, config.num_layers * kind.num_states * dim, rngs=rngs)
        self.attention: Any = None if make_attention is None else make_attention(0, rngs)
        # A layer whose steps can draw at random does so in training.
        self.draws = "rngs" in _parameters(self.attention, "decode")
        self.keeps_context = "context" in _parameters(self.attention, "init_cache")
        self.fixed = Linear(dim, dim, rngs=rngs) if make_attention is None else None
        self.is_luong = config.style == "luong"
        self.out = Linear(*((2 * dim, dim) if self.is_luong else (3 * dim, 2 * dim)), rngs=rngs)
        self.dropout = Dropout(config.dropout_rate)

    def __call__(
        self,
        x: Float[Array, "b t d"],
        states: Float[Array, "b s d"],
        *,
        source_segment_ids: Int[Array, "b s"],
        segment_ids: Int[Array, "b t"],
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t d"]:
        """Decodes all of x, in one compiled loop over time.

        Args:
            x: the embedded target, shifted so that each position is to give the next token.
            states: what the encoder made of the source.
            source_segment_ids, segment_ids: each example is a stretch with an id of its own, and
                begins with states of its own; 0 is padding.
            rngs: for dropout and what the attention draws, stream "dropout"; None = deterministic.
        """
        x = self.dropout(x, rngs=rngs)
        outcome = self._all(x, states, source_segment_ids, segment_ids, rngs)
        return self.dropout(self._output(x, outcome), rngs=rngs)

    def queries(
        self,
        x: Float[Array, "b t d"],
        states: Float[Array, "b s d"],
        *,
        source_segment_ids: Int[Array, "b s"],
        segment_ids: Int[Array, "b t"],
    ) -> Float[Array, "b t d"]:
        """Returns what attention asks with at each position."""
        outcome = self._all(x, states, source_segment_ids, segment_ids, None)
        return outcome.query.astype(x.dtype)

    def start(
        self,
        states: Float[Array, "b s d"],
        max_length: int,
        *,
        source_segment_ids: Int[Array, "b s"],
    ) -> RecurrentState:
        """Returns the state before the first of up to max_length tokens, one example a row."""
        whole = ends(states, source_segment_ids, jnp.ones((states.shape[0], 1), jnp.int32))
        first = jax.tree.map(lambda leaf: leaf[:, 0], self._first_cells(whole))
        return self._blank(states, max_length, source_segment_ids)._replace(cells=first)

    def step(
        self,
        x: Float[Array, "b 1 d"],
        states: Float[Array, "b s d"],
        state: RecurrentState,
        *,
        source_segment_ids: Int[Array, "b s"],
    ) -> tuple[Float[Array, "b 1 d"], RecurrentState]:
        """Decodes the next token of each row; arguments as in `start` and a call."""
        ids = jnp.ones((x.shape[0], 1), jnp.int32)
        steps = self._steps(x, states, source_segment_ids, ids)
        one = jax.tree.map(lambda leaf: leaf[0], steps)
        outcome, state = self._advance(state, one, states, Random())
        return self._output(x, jax.tree.map(lambda leaf: leaf[:, None], outcome)), state

    # -- all steps ---------------------------------------------------------------------------------

    def _all(self, x, states, source_ids, ids, rngs) -> Outcome:
        """Returns what all steps give, each leaf [b t d]."""
        first = self._first_cells(ends(states, source_ids, ids))
        blank = self._blank(states, x.shape[1], source_ids)
        resets = runs.starts(ids)
        key = rngs.dropout() if rngs is not None and self.draws else None
        random = Random(self.dropout.draw(rngs), key)

        def body(state: RecurrentState, at):
            step, first, reset, restarts = at
            cells, attentional = jax.tree.map(
                lambda new, old: jnp.where(reset[:, None], new, old),
                (first, blank.attentional),
                (state.cells, state.attentional),
            )
            state = state._replace(cells=cells, attentional=attentional)
            outcome, after = self._advance(state, step, states, random)
            cache = _blank_where(restarts, after.cache, state.cache, blank.cache)
            return after._replace(cache=cache), outcome

        restarts = jnp.pad(resets[:, 1:], ((0, 0), (0, 1)))
        along = _time_first((first, resets, restarts))
        steps = self._steps(x, states, source_ids, ids)
        _, outcomes = jax.lax.scan(body, blank, (steps, *along))
        return _time_first(outcomes)

    def _steps(self, x, states, source_ids, ids) -> Step:
        """Returns what each step is given; the steps lead every leaf."""
        dim, cell = self.config.dim, self.cells[0]
        # Of all tokens in one product; the rest of the kernel is for what is fed back.
        gates = affine(x, cell.input.kernel[:dim], cell.input.bias[...])
        visible = (ids[:, :, None] == source_ids[:, None, :]) & (ids != 0)[:, :, None]
        fixed: Any = ()
        if self.fixed is not None:
            fixed = self.fixed(ends(states, source_ids, ids))
        index = jnp.arange(x.shape[1], dtype=jnp.int32)
        gates, fixed, visible = (_time_first(array) for array in (gates, fixed, visible))
        return Step(gates, fixed, visible, index)

    def _first_cells(self, whole: Float[Array, "b t d"]):
        """Returns the states that an example starts with, each [b t d], for each layer."""
        config = self.config
        per_layer = recurrence.CELLS[config.cell].num_states
        joined = jnp.tanh(self.initial(whole.astype(config.dtype)).astype(jnp.float32))
        parts = jnp.split(joined, config.num_layers * per_layer, axis=-1)
        return tuple(
            tuple(parts[i * per_layer : (i + 1) * per_layer]) for i in range(config.num_layers)
        )

    def _blank(
        self, states: Float[Array, "b s d"], max_length: int, source_ids: Int[Array, "b s"]
    ) -> RecurrentState:
        """Returns a state without a past."""
        config, batch = self.config, states.shape[0]
        zeros = jnp.zeros((batch, config.dim), jnp.float32)
        cells = ((zeros,) * recurrence.CELLS[config.cell].num_states,) * config.num_layers
        cache: Any = ()
        if self.attention is not None:
            given = {}
            if self.keeps_context:
                given = {"context": states, "context_segment_ids": source_ids}
            cache = self.attention.init_cache(batch, max_length, **given)
        return RecurrentState(cells, zeros if self.is_luong else (), cache)

    # -- one step ----------------------------------------------------------------------------------

    def _advance(
        self, state: RecurrentState, step: Step, states: Array, random: Random
    ) -> tuple[Outcome, RecurrentState]:
        before = state.cells[-1][0]
        if self.is_luong:
            cells = self._cells(state.cells, step, state.attentional, random)
            top = cells[-1][0]
            context, cache = self._read(top, state.cache, step, states, random)
            top = self._attentional(context, top)
            outcome = Outcome(top, context, cells[-1][0])
            return outcome, RecurrentState(cells, top, cache)
        context, cache = self._read(before, state.cache, step, states, random)
        cells = self._cells(state.cells, step, context, random)
        return Outcome(cells[-1][0], context, before), RecurrentState(cells, (), cache)

    def _cells(self, cells, step: Step, fed: Float[Array, "b d"], random: Random):
        """Returns the states of all cells after a step."""
        dtype, dim, x, after = self.config.dtype, self.config.dim, None, []
        for layer, (cell, state) in enumerate(zip(self.cells, cells, strict=True)):
            if x is None:
                given = step_product(fed.astype(dtype), cell.input.kernel[dim:])
                given = given + step.gates.astype(jnp.float32)
            else:
                if random.drop is not None:
                    number = step.index * len(self.cells) + layer
                    x = random.drop.for_block(number)(x)
                given = step_product(x.astype(dtype), cell.input.kernel[...])
                given = given + cell.input.bias[...][None, :]
            from_state = step_product(state[0].astype(dtype), cell.kernel[0])
            after.append(cell.kind.update(state, given, from_state))
            x = after[-1][0]
        return tuple(after)

    def _read(self, query, cache, step: Step, states, random: Random):
        """Returns the context, [b d] in float32, and the cache after it was read."""
        if self.attention is None:
            return step.fixed.astype(jnp.float32), cache
        drawn = {}
        if random.key is not None:
            drawn = {"rngs": nnx.Rngs(dropout=jax.random.fold_in(random.key, step.index))}
        y, cache = self.attention.decode(
            query[:, None].astype(self.config.dtype),
            cache,
            context=states,
            mask=step.visible[:, None, None, :],
            **drawn,
        )
        return y[:, 0].astype(jnp.float32), cache

    def _attentional(self, context, top):
        joined = jnp.concatenate([context, top], axis=-1).astype(self.config.dtype)
        product = step_product(joined, self.out.kernel[...]) + self.out.bias[...][None, :]
        return jnp.tanh(product)

    def _output(self, x: Float[Array, "b t d"], outcome: Outcome) -> Float[Array, "b t d"]:
        """Returns what logits are made of, of any number of steps at once."""
        dtype = self.config.dtype
        if self.is_luong:
            return outcome.top.astype(dtype)
        joined = [outcome.top.astype(dtype), outcome.context.astype(dtype), x.astype(dtype)]
        pairs = self.out(jnp.concatenate(joined, axis=-1))
        return jnp.max(pairs.reshape(*pairs.shape[:2], -1, 2), axis=-1)


def _parameters(layer: Any, method: str) -> tuple[str, ...]:
    return () if layer is None else tuple(inspect.signature(getattr(layer, method)).parameters)


def _blank_where(resets: Bool[Array, " b"], after: Any, before: Any, blank: Any) -> Any:
    """Returns the cache with rows blank where an example begins with the next step.

    What a step leaves alone, such as keys of the source, is the same in all examples of a row; a
    loop keeps it out of what it carries as long as nothing here touches it.
    """

    def leaf(after, before, blank):
        if after is before:
            return after
        return jnp.where(resets.reshape(-1, *[1] * (after.ndim - 1)), blank, after)

    return jax.tree.map(leaf, after, before, blank)


def _time_first(tree: Any) -> Any:
    """Swaps the first two axes of every leaf."""
    return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), tree)
