"""SOAP is Adam in the directions that gradients are made of."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ebmm.layers import ResBlock
from ebmm.training.checkpoint import Checkpoints, Snapshot
from ebmm.training.progress import Progress
from ebmm.training.settings import Settings, Stage
from ebmm.training.soap import scale_by_soap
from ebmm.training.update import Learner, are_matrices, transformation

ROWS, COLUMNS = 6, 4


def gradients(count, *, noise=0.1, shape=(ROWS, COLUMNS)):
    """Of a matrix: a long direction whose sign changes, which is neither a row nor a column, and some noise."""
    random = np.random.default_rng(0)
    left, right = (np.linalg.qr(random.normal(size=(n, n)))[0][:, 0] for n in shape)
    signs = random.choice([-1.0, 1.0], count)
    found = [10 * sign * np.outer(left, right) + noise * random.normal(size=shape) for sign in signs]
    return np.array(found, jnp.zeros(()).dtype), left, right


def changes(optimizer, steps):
    state, found, update = optimizer.init(jnp.asarray(steps[0])), [], jax.jit(optimizer.update)
    for gradient in steps:
        change, state = update(jnp.asarray(gradient), state)
        found.append(np.asarray(change))
    return np.array(found)


def in_numpy(steps, *, mean_decay, square_decay, epsilon, every):
    """The algorithm, written down once more in float64."""
    mean = square = left_moment = right_moment = np.zeros((COLUMNS, COLUMNS))
    left = right = np.eye(COLUMNS)
    found = []
    for count, gradient in enumerate(steps.astype(float), 1):
        mean = mean_decay * mean + (1 - mean_decay) * gradient
        square = square_decay * square + (1 - square_decay) * (left.T @ gradient @ right) ** 2
        first, second = mean / (1 - mean_decay**count), square / (1 - square_decay**count)
        found.append(left @ ((left.T @ first @ right) / (np.sqrt(second) + epsilon)) @ right.T)
        left_moment = square_decay * left_moment + (1 - square_decay) * gradient @ gradient.T
        right_moment = square_decay * right_moment + (1 - square_decay) * gradient.T @ gradient
        if count < every or count % every == 0:
            left, right = np.linalg.qr(left_moment @ left)[0], np.linalg.qr(right_moment @ right)[0]
    return np.array(found)


@pytest.mark.usefixtures("float64")
def test_it_agrees_with_numpy():
    # Square, so that no direction is without a gradient, which the first bases would be free to turn.
    steps, *_ = gradients(12, shape=(COLUMNS, COLUMNS))
    chosen = {"mean_decay": 0.8, "square_decay": 0.9, "epsilon": 1e-6, "every": 4}
    found = changes(scale_by_soap(lambda _: True, **chosen), steps)
    np.testing.assert_allclose(found, in_numpy(steps, **chosen), rtol=1e-6, atol=1e-8)


def test_what_is_no_matrix_moves_as_under_adam():
    steps, *_ = gradients(5)
    found = changes(scale_by_soap(lambda _: False, mean_decay=0.9, square_decay=0.999), steps)
    np.testing.assert_allclose(found, changes(optax.scale_by_adam(0.9, 0.999), steps), rtol=1e-4)


def test_a_long_direction_takes_no_longer_steps_than_any_other():
    """Under Adam it is spread over all weights, and every one of them is moved."""
    steps, left, right = gradients(60, noise=1e-3)

    def along(optimizer):
        return np.abs(np.einsum("nij,i,j->n", changes(optimizer, steps)[20:], left, right)).mean()

    assert along(scale_by_soap(lambda _: True)) < 0.4 * along(optax.scale_by_adam(0.95, 0.99))


@pytest.mark.parametrize("turn", ["rows", "columns"])
def test_once_settled_it_does_not_depend_on_the_coordinates(turn):
    steps, *_ = gradients(300)
    size = ROWS if turn == "rows" else COLUMNS
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(size, size)))[0].astype(steps.dtype)
    turned = np.einsum("ij,njk->nik", rotation, steps) if turn == "rows" else steps @ rotation
    plain, found = (changes(scale_by_soap(lambda _: True), each)[-1] for each in (steps, turned))
    expected = rotation @ plain if turn == "rows" else plain @ rotation
    np.testing.assert_allclose(found, expected, atol=0.15)
    assert np.abs(plain).max() > 0.3


def test_kernels_are_matrices_and_vectors_are_not():
    block = ResBlock(1, 8, key=jax.random.key(0))
    marked = are_matrices(block)
    assert marked.second.kernel
    assert not marked.first.bias
    assert not marked.skip.kernel  # 1 × 1 from a single channel


def test_the_state_keeps_its_types(shallow):
    """Or every update would be compiled twice."""
    optimizer = transformation(Settings(updates=9, stages=(Stage(4, 3, 9),), optimizer="soap"))
    parameters = eqx.filter(shallow, eqx.is_inexact_array)
    before = jax.eval_shape(optimizer.init, parameters)
    _, after = jax.eval_shape(optimizer.update, parameters, before, parameters)
    assert jax.tree.structure(before) == jax.tree.structure(after)
    for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        assert (one.shape, one.dtype, one.weak_type) == (other.shape, other.dtype, other.weak_type)


def test_its_state_survives_a_checkpoint(shallow, tmp_path):
    learner = Learner.of(shallow, Settings(updates=9, stages=(Stage(4, 3, 9),), optimizer="soap"))
    moved = jax.tree.map(lambda leaf: leaf + 1 if eqx.is_inexact_array(leaf) else leaf, learner)
    checkpoints = Checkpoints(tmp_path, "fingerprint")
    checkpoints.save(Snapshot(moved, Progress()), [Snapshot(learner, Progress())])
    loaded, _ = checkpoints.load(learner)
    for found, expected in zip(*map(jax.tree.leaves, (loaded.learner.optimizer, moved.optimizer)), strict=True):
        np.testing.assert_array_equal(found, expected)
