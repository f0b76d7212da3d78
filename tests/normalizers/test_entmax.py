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


compiled_entmax = jax.jit(entmax, static_argnames="alpha")


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


@pytest.mark.long
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


def slow_rows() -> np.ndarray:
    """Rows that take Newton's method 8 to 10 steps at α = 2, where most take 3 to 6.

    Low scores close together; and clusters, of which each step should drop only the lowest.
    """
    length, kept, gap, position = 2048, 0.61, 0.1, -1.0
    clusters = [0.0]
    while len(clusters) < length:
        inside = length - len(clusters)
        clusters += [position + gap * 1e-2] * max(1, round(inside * (1 - kept)))
        position, gap = position + gap, gap * (1 - kept) / kept
    close = np.random.default_rng(3).normal(size=(3, length)) * [[0.05], [0.15], [0.3]]
    return np.float32([clusters, *close])[None, None]


@pytest.mark.parametrize("alpha", [2.0, 1.9, 1.5, 1.1])
def test_slow_rows(alpha):
    scores = slow_rows()
    want = np.apply_along_axis(lambda row: reference.entmax(row, alpha), -1, np.float64(scores))
    np.testing.assert_allclose(entmax(scores, alpha), want, rtol=0, atol=5e-7)


@pytest.mark.parametrize("alpha", [2.0, 1.5, 1.3, 1.001])
def test_rows_do_not_depend_on_each_other(alpha):
    # The same shapes, so that sums round alike: beside slow rows, and beside rows of equal scores.
    scales = np.geomspace(1e-2, 1e2, 20)[None, None, :, None]
    rows = np.float32(scales * np.random.default_rng(2).normal(size=(1, 1, 20, 2048)))
    slow, quick = slow_rows(), np.zeros((1, 1, 4, 2048), np.float32)
    for start in range(0, 20, 4):  # a few at a time: one slow row among them would hide the rest
        few = rows[:, :, start : start + 4]
        beside = [
            compiled_entmax(np.concatenate([few, others], axis=2), alpha=alpha)
            for others in (slow, quick)
        ]
        np.testing.assert_array_equal(beside[0][:, :, :4], beside[1][:, :, :4])


@pytest.mark.parametrize("alpha", [1.0, 0.5, 2.1, float("nan")])
def test_refuses_other_alphas(alpha):
    with pytest.raises(UserError, match=r"alpha=.*at most 2.*model\.attention\.alpha"):
        entmax(np.zeros((1, 1, 1, 2), np.float32), alpha)
