"""Position schemes from their papers, in float64, one number at a time."""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import solve_ivp


def sinusoidal(positions: np.ndarray, width: int) -> np.ndarray:
    """The formula of arXiv 1706.03762, section 3.5, for positions [b t]: [b t w]."""
    result = np.zeros((*positions.shape, width))
    for b, t, i in np.ndindex(result.shape):
        angle = positions[b, t] / 10000 ** (2 * (i // 2) / width)
        result[b, t, i] = math.cos(angle) if i % 2 else math.sin(angle)
    return result


def rope_angles(
    size: int,
    *,
    base: float = 10000.0,
    scaling: str = "none",
    factor: float = 1.0,
    length: float = 1.0,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
) -> list[float]:
    """The angles of the size/2 pairs, in radians a position; length is the original one of yarn."""
    if scaling == "ntk":
        base = base * factor ** (size / (size - 2))
    angles = [1 / base ** (2 * i / size) for i in range(size // 2)]
    if scaling == "linear":
        return [angle / factor for angle in angles]
    if scaling != "yarn":
        return angles
    # The pair that makes so many turns in `length` positions, from angle · length = 2π · turns.
    fast, slow = (
        size * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))
        for turns in (beta_fast, beta_slow)
    )
    first, last = max(math.floor(fast), 0), min(math.ceil(slow), size - 1)
    if first == last:
        last += 0.001
    kept = [1 - min(max((i - first) / (last - first), 0), 1) for i in range(size // 2)]
    return [a / factor * (1 - k) + a * k for a, k in zip(angles, kept, strict=True)]


def rope(
    x: np.ndarray,
    positions: np.ndarray,
    *,
    layout: str = "half",
    fraction: float = 1.0,
    scaling: str = "none",
    factor: float = 1.0,
    attention_factor: float | None = None,
    **angles: float,
) -> np.ndarray:
    """x [b t n h] with each pair of its first fraction·h features turned as a complex number."""
    size = round(fraction * x.shape[-1])
    each = rope_angles(size, scaling=scaling, factor=factor, **angles)
    amplitude = 1.0
    if scaling == "yarn":
        amplitude = 0.1 * math.log(factor) + 1 if attention_factor is None else attention_factor
    result = x.astype(np.float64)
    for b, t, n, i in np.ndindex(*x.shape[:3], size // 2):
        real, imaginary = (i, i + size // 2) if layout == "half" else (2 * i, 2 * i + 1)
        number = complex(x[b, t, n, real], x[b, t, n, imaginary])
        number *= amplitude * np.exp(1j * float(positions[b, t]) * each[i])
        result[b, t, n, real], result[b, t, n, imaginary] = number.real, number.imag
    return result


def alibi_slopes(num_heads: int) -> list[float]:
    """The slopes of arXiv 2108.12409, with its code's rule for heads that are no power of two."""

    def geometric(count: int) -> list[float]:
        start = 2 ** -(2 ** -(math.log2(count) - 3))
        return [start * start**i for i in range(count)]

    if math.log2(num_heads).is_integer():
        return geometric(num_heads)
    lower = 2 ** math.floor(math.log2(num_heads))
    return geometric(lower) + alibi_slopes(2 * lower)[0::2][: num_heads - lower]


def alibi(distance: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """The bias [b n t s] for distances [b t s]."""
    b, t, s = distance.shape
    result = np.zeros((b, len(slopes), t, s))
    for at in np.ndindex(result.shape):
        result[at] = -slopes[at[1]] * abs(int(distance[at[0], at[2], at[3]]))
    return result


def t5_bucket(distance: int, *, num_buckets: int, max_distance: int, bidirectional: bool) -> int:
    """The bucket of one distance (key − query), as arXiv 1910.10683's code has it."""
    bucket = 0
    if bidirectional:
        num_buckets //= 2
        bucket = num_buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = num_buckets // 2
    if distance < exact:
        return bucket + distance
    share = math.log(distance / exact) / math.log(max_distance / exact)
    # 1e-9: on a boundary the quotient of two logarithms may lie just below.
    step = math.floor(share * (num_buckets - exact) + 1e-9)
    return bucket + min(exact + step, num_buckets - 1)


def t5(distance: np.ndarray, table: np.ndarray, **options) -> np.ndarray:
    """The bias [b n t s] for distances [b t s] and a table [buckets n]."""
    b, t, s = distance.shape
    result = np.zeros((b, table.shape[1], t, s))
    for i, j, k in np.ndindex(distance.shape):
        bucket = t5_bucket(int(distance[i, j, k]), num_buckets=len(table), **options)
        result[i, :, j, k] = table[bucket]
    return result


def shaw_rows(distance: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The vector of each distance, [b t s h], of a table [2c+1 h] (arXiv 1803.02155)."""
    farthest = (len(table) - 1) // 2
    return table[np.clip(distance, -farthest, farthest) + farthest]


def shaw_key(q: np.ndarray, distance: np.ndarray, table: np.ndarray) -> np.ndarray:
    """q · aᴷ, [b n t s]."""
    rows = np.broadcast_to(shaw_rows(distance, table), (len(q), *distance.shape[1:], q.shape[-1]))
    return np.einsum("btnh,btsh->bnts", q, rows)


def shaw_value(weights: np.ndarray, distance: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Σ_s weight · aⱽ, [b t n h]."""
    shape = (len(weights), *distance.shape[1:], table.shape[-1])
    rows = np.broadcast_to(shaw_rows(distance, table), shape)
    return np.einsum("bnts,btsh->btnh", weights, rows)


def floater(arrays: dict[str, np.ndarray], times: list[float]) -> np.ndarray:
    """The points [p w] at increasing times of the path of arXiv 2003.09229, by SciPy's solver.

    arrays: `start` [w], `hidden_kernel` [w+1 f], `hidden_bias`, `out_kernel` [f w], `out_bias`.
    """

    def slope(time: float, point: np.ndarray) -> np.ndarray:
        given = np.append(point, time) @ arrays["hidden_kernel"] + arrays["hidden_bias"]
        return np.tanh(given) @ arrays["out_kernel"] + arrays["out_bias"]

    span = (0.0, times[-1])
    start = arrays["start"].astype(np.float64)
    solved = solve_ivp(slope, span, start, "DOP853", times, rtol=1e-10, atol=1e-12)
    return solved.y.T
