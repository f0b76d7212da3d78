"""GRU and LSTM layers in float64, one row, one direction and one step at a time."""

from __future__ import annotations

import numpy as np


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def gru(state, given, kernel):
    """Cho et al. 2014, with the reset gate after the product."""
    (h,) = state
    size = h.size
    recurrent = h @ kernel
    r = sigmoid(given[:size] + recurrent[:size])
    z = sigmoid(given[size : 2 * size] + recurrent[size : 2 * size])
    new = np.tanh(given[2 * size :] + r * recurrent[2 * size :])
    return ((1 - z) * new + z * h,)


def lstm(state, given, kernel):
    """Gers et al. 2000; the gates lie in the order input, forget, new, output."""
    h, c = state
    i, f, g, o = np.split(given + h @ kernel, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def one_way(x, ids, visible, kernel, bias, recurrent, cell):
    """Returns the state at each step of one row, [t h]."""
    update, num_states = {"gru": (gru, 1), "lstm": (lstm, 2)}[cell]
    size = recurrent.shape[0]
    zeros = tuple(np.zeros(size) for _ in range(num_states))
    state, last_id = zeros, 0
    hidden = np.zeros((len(x), size))
    for i in range(len(x)):
        if ids[i] != 0:
            if ids[i] != last_id:
                state, last_id = zeros, ids[i]
            if visible[i]:
                state = update(state, x[i] @ kernel + bias, recurrent)
            hidden[i] = state[0]
    return hidden


def forward(
    layer_state: dict[str, np.ndarray],
    x: np.ndarray,
    *,
    segment_ids: np.ndarray,
    causal: bool,
    visible: np.ndarray | None = None,
    cell: str = "gru",
) -> np.ndarray:
    """Returns the layer's output [b t d]; `visible` [b t] is False where a mask hides."""
    recurrent = layer_state["recurrent.kernel"]
    features = recurrent.shape[2]
    visible = np.ones(x.shape[:2], bool) if visible is None else visible
    result = np.zeros_like(x)
    for b in range(len(x)):
        ways = []
        for g in range(1 if causal else 2):
            order = slice(None, None, -1 if g else 1)
            own = slice(g * features, (g + 1) * features)
            hidden = one_way(
                x[b, order],
                segment_ids[b, order],
                visible[b, order],
                layer_state["input.kernel"][:, own],
                layer_state["input.bias"][own],
                recurrent[g],
                cell,
            )
            ways.append(hidden[order])
        joined = np.concatenate(ways, axis=1)
        result[b] = joined @ layer_state["out.kernel"] + layer_state["out.bias"]
    return result
