"""α-entmax over the whole range of α, on contrived rows, and against its authors' package."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import normalizers as reference

from attention import normalizers
from attention.errors import UserError

pytestmark = pytest.mark.fast


def entmax(scores, alpha):
    return normalizers.get("entmax").normalize(jnp.asarray(scores), None, alpha=alpha)


def test_the_references_agree():
    for row in 2.0 * np.random.default_rng(0).normal(size=(20, 9)):
        np.testing.assert_allclose(reference.entmax(row, 2.0), reference.sparsemax(row), atol=1e-13)
        np.testing.assert_allclose(reference.entmax(row, 1.5), reference.entmax15(row), atol=1e-13)


@pytest.mark.parametrize(
    "name", ["sparsemax", "entmax15", "entmax_1.05", "entmax_1.25", "entmax_1.75"]
)
def test_equals_the_authors_package(name, repository):
    with np.load(repository / "tests" / "golden" / "entmax.npz") as file:
        golden = dict(file)
    part, _, alpha = name.partition("_")
    own = {"alpha": float(alpha)} if alpha else {}
    weights, pull = jax.vjp(
        lambda s: normalizers.get(part).normalize(s, None, **own), jnp.asarray(golden["scores"])
    )
    np.testing.assert_allclose(weights, golden[f"{name}_out"], rtol=0, atol=5e-7)
    (gradient,) = pull(jnp.asarray(golden["cotangent"]))
    np.testing.assert_allclose(gradient, golden[f"{name}_grad"], rtol=0, atol=3e-6)


@pytest.mark.parametrize("alpha", [1 + 1e-12, 1.0001, 1.01, 1.1, 1.3, 1.6, 1.9, 1.999, 2.0])
def test_every_alpha(alpha):
    random = np.random.default_rng(0)
    scales = np.array([1e-3, 0.1, 1.0, 10.0, 1e4])[None, None, :, None]
    scores = (scales * random.normal(size=(1, 2, 5, 150))).astype(np.float32)
    got, pull = jax.vjp(lambda s: entmax(s, alpha), scores)
    find = (lambda row: reference.entmax(row, alpha)) if alpha > 1.00001 else reference.softmax
    want = np.apply_along_axis(find, -1, np.float64(scores))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=5e-7)
    np.testing.assert_allclose(np.sum(got, -1), 1.0, rtol=1e-6)
    assert np.all(np.isfinite(pull(jnp.cos(jnp.asarray(scores)))[0]))


def test_reductions():
    scores = np.random.default_rng(1).normal(size=(2, 3, 4, 9)).astype(np.float32)
    for name, alpha in (("sparsemax", 2.0), ("entmax15", 1.5)):
        want = normalizers.get(name).normalize(jnp.asarray(scores), None)
        np.testing.assert_array_equal(entmax(scores, alpha), want)
        np.testing.assert_allclose(entmax(scores, alpha - 1e-6), want, rtol=0, atol=2e-6)
    softmax = normalizers.get("softmax").normalize(jnp.asarray(scores), None)
    distances = [float(jnp.max(jnp.abs(entmax(scores, 1 + d) - softmax))) for d in (1e-2, 1e-3)]
    assert distances[0] < 1e-2 and 5 < distances[0] / distances[1] < 20  # falls as α − 1 does


def contrived(length: int, kept: float, scale: float) -> np.ndarray:
    """A row on which each Newton step for α = 2 drops the least it can.

    Before the step from τ, a share 1 − kept of the keys still inside lies just above τ, so that
    norm − 1 falls by the share that convexity promises and by no more.
    """
    row, position, gap, inside = [0.0], -1.0, scale, float(length)
    while len(row) < length:
        leaving = max(1, round(inside * (1 - kept)))
        row += [position + gap * 1e-2] * leaving
        position, gap, inside = position + gap, gap * (1 - kept) / kept, inside - leaving
    return np.asarray(row[:length], np.float32)


def test_rows_made_to_be_slow():
    rows = [contrived(256, k, s) for k in (0.55, 0.6, 0.65, 0.7, 0.8) for s in (0.1, 0.3)]
    scores = np.stack(rows)[None, None]
    for alpha in (2.0, 1.9, 1.5):
        want = np.apply_along_axis(lambda row: reference.entmax(row, alpha), -1, np.float64(scores))  # noqa: B023
        np.testing.assert_allclose(entmax(scores, alpha), want, rtol=0, atol=5e-7)


def test_rows_do_not_depend_on_each_other():
    slow = np.broadcast_to(contrived(256, 0.7, 0.3), (1, 1, 1, 256))
    quick = np.random.default_rng(2).normal(size=(1, 1, 5, 256)).astype(np.float32)
    for alpha in (2.0, 1.5, 1.3, 1.001):
        together = entmax(np.concatenate([slow, quick], axis=2), alpha)
        np.testing.assert_array_equal(together[:, :, 1:], entmax(quick, alpha))


@pytest.mark.parametrize("alpha", [1.0, 0.5, 2.1, float("nan")])
def test_refuses_other_alphas(alpha):
    with pytest.raises(UserError, match=r"alpha=.*at most 2.*model\.attention\.alpha"):
        entmax(np.zeros((1, 1, 1, 2), np.float32), alpha)
