"""The copy head against another library's, stored in tests/golden."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from support.golden import check, read

from attention.models.pointer import PointerHead

pytestmark = pytest.mark.fast
WEIGHTS = {"query_kernel", "query_bias", "key_kernel", "score_vector", "gate_kernel", "gate_bias"}


@pytest.mark.long
@pytest.mark.parametrize("mode", ["mixed", "alone"])
def test_probabilities(mode):
    file = read("pointer_opennmt")
    (b, t, d), size = file["x"].shape, file["cotangent"].shape[2]
    s = file["context"].shape[1]
    seen = np.arange(s) < file["lengths"][:, None, None]
    visible = jnp.asarray(np.broadcast_to(seen, (b, t, s)))
    head = PointerHead(mode, dim=d, context_dim=d, rngs=nnx.Rngs(0))
    graph, state = nnx.split(head)

    def run(x, context, generator_kernel=None, generator_bias=None, **weights):
        flat = nnx.to_flat_state(state)
        names = {"_".join(map(str, path)) for path, _ in flat}
        assert weights.keys() == names - {"key_bias"}
        weights["key_bias"] = jnp.zeros((d,))
        taken = [(path, leaf.replace(weights["_".join(map(str, path))])) for path, leaf in flat]
        head = nnx.merge(graph, nnx.from_flat_state(taken))
        logits = None
        if generator_kernel is not None and generator_bias is not None:
            logits = jnp.einsum("btd,dv->btv", x, generator_kernel) + generator_bias[None, None]
        keys, tokens = head.keys(context), jnp.asarray(file["tokens"])
        return jnp.exp(head(x, keys, tokens, logits, visible=visible, size=size))

    used = {"mixed": WEIGHTS | {"generator_kernel", "generator_bias"}}
    used["alone"] = {name for name in WEIGHTS if "gate" not in name}
    check(run, file, mode, ("x", "context", *sorted(used[mode])))
    assert np.abs(file[f"{mode}_out"].sum(-1) - 1).max() < 1e-12  # nothing of it is left out
