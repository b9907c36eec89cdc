"""Deep Image Prior: a network fitted to each query."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmm.baselines.deep_image_prior import DeepImagePrior, Hourglass

SMALL = {"channels": 8, "skip_channels": 2, "input_channels": 4, "scales": 1}


@pytest.fixture(scope="module")
def image():
    """A smooth picture: a bright disc on a ramp."""
    rows, columns = np.mgrid[:12, :12] / 11
    return jnp.asarray(0.5 * rows + 0.5 * ((rows - 0.5) ** 2 + (columns - 0.5) ** 2 < 0.1), jnp.float32)[..., None]


def squared(a, b):
    return float(jnp.sum((a - b) ** 2))


def test_an_image_is_fitted_better_and_better(image):
    model = DeepImagePrior((12, 12, 1), updates=150, snapshots=3, **SMALL)
    out = model.read((), image[None])
    errors = [squared(snapshot[0], image) for snapshot in out.trajectory]
    assert out.trajectory.shape == (3, 1, 12, 12, 1)
    assert out.energies is model.energies((), image[None]) is None
    assert errors[2] < errors[0]
    assert errors[2] < 0.1 * squared(image, image.mean())
    np.testing.assert_array_equal(out.patterns, out.trajectory[-1])


def test_what_is_hidden_does_not_matter_and_is_filled_in(image):
    """Only known pixels are fitted: the same answer whatever the damage, and better than the mean inside it."""
    known = jnp.ones(image.shape, bool).at[3:7, 3:7].set(False)
    model = DeepImagePrior((12, 12, 1), updates=100, snapshots=1, **SMALL)
    black, white = (model.read((), jnp.where(known, image, value)[None], known=known[None]) for value in (0.0, 1.0))
    np.testing.assert_allclose(black.patterns, white.patterns, atol=1e-6)
    np.testing.assert_array_equal(
        np.asarray(black.patterns[0])[np.asarray(known)], np.asarray(image)[np.asarray(known)]
    )
    filled = jnp.where(known, image, jnp.mean(image, where=known))
    assert squared(black.patterns[0], image) < squared(filled, image)


def test_a_hole_in_a_white_page_stays_white():
    """A fit that starts from grey makes the known paper white and the unknown black: channels have zero mean."""
    page = jnp.zeros((12, 12, 1)).at[9:11, 2:9].set(1.0)
    known = jnp.ones(page.shape, bool).at[1:7, 3:9].set(False)
    model = DeepImagePrior((12, 12, 1), updates=60, snapshots=1, **SMALL)
    keys = jax.random.split(jax.random.key(0), 3)
    holes = [model.read((), page[None], known=known[None], key=key).patterns[0][~known] for key in keys]
    assert np.mean(np.asarray(holes) > 0.5) < 0.2


def test_nothing_is_stored_and_the_key_is_all_that_a_read_depends_on(image):
    model = DeepImagePrior((12, 12, 1), updates=4, snapshots=2, **SMALL)
    state = model.write(image[None])
    assert model.memory_size == len(jax.tree.leaves((state, model.initial_state))) == 0
    first, again, other = (model.read(state, image[None], key=jax.random.key(k)).patterns for k in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.any(np.asarray(first != other))


def test_the_hourglass_sees_the_whole_image(image):
    """One pixel of its input moves all pixels of its output; odd sizes come back as they were."""
    network = Hourglass(2, 3, channels=4, skip_channels=1, scales=2, key=jax.random.key(0))
    source = jax.random.normal(jax.random.key(1), (7, 9, 2))
    out = network(source)
    assert out.shape == (7, 9, 3)
    assert np.all(np.asarray(network(source.at[0, 0].add(5.0)) != out))


def test_jit_vmap_and_loss(image):
    model = DeepImagePrior((12, 12, 1), updates=4, snapshots=2, **SMALL)
    episodes = jnp.stack([image[None], 1 - image[None]])
    losses, recalled = jax.jit(jax.vmap(lambda patterns: model.loss(patterns, patterns)))(episodes)
    assert recalled.shape == episodes.shape
    assert np.isfinite(losses).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"pattern_shape": (8,)},
        {"scales": 3},
        {"updates": 0},
        {"updates": 7, "snapshots": 2},
        {"learning_rate": 0.0},
        {"jitter": -1.0},
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="got"):
        DeepImagePrior(**({"pattern_shape": (8, 8, 1), "scales": 2} | wrong))
