"""What every memory model promises, whatever it is made of."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import small_rnn

from ebmm import Memory
from ebmm.baselines import (
    LSTM,
    MANN,
    SYSTEMS,
    VAE,
    AutoEncoder,
    DeepImagePrior,
    ExactStore,
    Hopfield,
    KanervaMachine,
    MemoryNetwork,
    ModernHopfield,
    Plasticity,
)
from ebmm.files import named_arrays

KEY = jax.random.key(0)
STRING, IMAGE = (6,), (8, 8, 1)
OF_STRINGS = {"domain": (-1.0, 1.0), "key": KEY}
OF_IMAGES = {"code": 5, "channels": 2, "key": KEY}
PATTERNS = 6
"""As many as the slots of those that have some, so that writing reaches all of them."""
MODELS = {
    "EBMM": small_rnn,
    "Hebb": lambda: Hopfield(STRING),
    "Storkey": lambda: Hopfield(STRING, rule="storkey", order="synchronous"),
    "pseudo-inverse": lambda: Hopfield(STRING, rule="pseudo-inverse"),
    "modern Hopfield, softmax": lambda: ModernHopfield(IMAGE, patterns=PATTERNS),
    "modern Hopfield, polynomial": lambda: ModernHopfield(
        STRING, patterns=PATTERNS, energy="polynomial", degree=8, domain=(-1.0, 1.0)
    ),
    "exact store": lambda: ExactStore(IMAGE, patterns=PATTERNS),
    "Memory Network, strings": lambda: MemoryNetwork(STRING, slots=PATTERNS, width=7, **OF_STRINGS),
    "Memory Network, images": lambda: MemoryNetwork(IMAGE, slots=PATTERNS, width=4, **OF_IMAGES),
    "MANN": lambda: MANN(STRING, slots=PATTERNS, width=4, hidden=5, **OF_STRINGS),
    "LSTM": lambda: LSTM(STRING, hidden=5, **OF_STRINGS),
    "plasticity": lambda: Plasticity(STRING, **OF_STRINGS),
    "fast weights": lambda: Plasticity(STRING, plasticity="shared", **OF_STRINGS),
    "Kanerva machine": lambda: KanervaMachine(IMAGE, slots=3, read_steps=2, **OF_IMAGES),
    "VAE": lambda: VAE(IMAGE, latents=4, channels=2, hidden=5, read_steps=2, key=KEY),
    "auto-encoder": lambda: AutoEncoder(IMAGE, **OF_IMAGES),
    "Deep Image Prior": lambda: DeepImagePrior(
        IMAGE, updates=2, snapshots=2, channels=2, skip_channels=1, input_channels=2, scales=1
    ),
}
TRAINED = [name for name in MODELS if name not in ("Hebb", "Storkey", "pseudo-inverse", "exact store")]
TRAINED = [name for name in TRAINED if not name.startswith(("modern", "Deep"))]


@cache
def model_of(name):
    return MODELS[name]()


def episode(model, seed=0):
    """Patterns at the ends of the domain, damaged copies, and what of these is undamaged."""
    rng = np.random.default_rng(seed)
    low, high = model.domain
    patterns, other = rng.choice([low, high], (2, PATTERNS, *model.pattern_shape)).astype(np.float32)
    known = rng.random(patterns.shape) < 0.5
    return jnp.asarray(patterns), jnp.asarray(np.where(known, patterns, other)), jnp.asarray(known)


@eqx.filter_jit
def remember(model, patterns, queries, known, key):
    write_key, read_key = jax.random.split(key)
    state = model.write(patterns, key=write_key)
    return state, model.read(state, queries, known=known, key=read_key)


@cache
def remembered(name):
    model = model_of(name)
    return remember(model, *episode(model), KEY)


def test_every_system_is_here():
    assert {type(model_of(name)).__name__ for name in MODELS} == {"EBMM", *SYSTEMS}


@pytest.mark.parametrize("name", MODELS)
def test_a_read_has_the_shape_and_the_domain_of_its_patterns(name):
    model = model_of(name)
    patterns, _, _ = episode(model)
    state, out = remembered(name)
    shapes = lambda tree: jax.tree.map(lambda a: (a.shape, a.dtype), tree)  # noqa: E731
    assert shapes(state) == shapes(model.initial_state)
    assert out.patterns.shape == patterns.shape
    np.testing.assert_array_equal(out.trajectory[-1], out.patterns)
    assert np.isfinite(out.trajectory).all()
    assert out.trajectory.min() >= model.domain[0]
    assert out.trajectory.max() <= model.domain[1]
    if out.energies is not None:
        assert out.energies.shape == (out.trajectory.shape[0] + 1, PATTERNS)
        if not isinstance(model, VAE):  # whose energy depends on the latents too, which a read moves
            np.testing.assert_allclose(out.energies[-1], model.energies(state, out.patterns), rtol=1e-3, atol=1e-3)
    else:
        assert model.energies(state, patterns) is None


@pytest.mark.parametrize("name", MODELS)
def test_known_dimensions_are_kept(name):
    model = model_of(name)
    _, queries, known = episode(model)
    for iterate in remembered(name)[1].trajectory:
        np.testing.assert_allclose(iterate[known], queries[known], atol=1e-6)


def is_symmetric(array):
    return array.ndim == 2 and array.shape[0] == array.shape[1] and np.allclose(array, array.T, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_memory_size_is_the_number_of_floats_that_writing_changes(name):
    """The entries of a symmetric matrix count once."""
    model = model_of(name)
    before = jax.tree.leaves(model.initial_state)
    after = [jax.tree.leaves(written(name, seed)) for seed in range(3)]
    changed = 0
    for index, start in enumerate(map(np.asarray, before)):
        ends = [np.asarray(leaves[index]) for leaves in after]
        moved = np.any([end != start for end in ends], axis=0)
        changed += np.sum(np.triu(moved) if all(map(is_symmetric, ends)) else moved)
    if isinstance(model, Hopfield):  # the paper counts a number for each unit too, which these rules leave at zero
        changed += model.pattern_shape[0]
    assert model.memory_size == changed


def written(name, seed):
    model = model_of(name)
    return remember(model, *episode(model, seed), KEY)[0]


@pytest.mark.parametrize("name", MODELS)
def test_the_same_key_gives_the_same_read(name):
    model = model_of(name)
    again = remember(model, *episode(model), KEY)
    for a, b in zip(jax.tree.leaves(remembered(name)), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", MODELS)
def test_episodes_side_by_side_are_those_one_by_one(name):
    model = model_of(name)
    episodes = [episode(model, seed) for seed in (0, 1)]
    together = jax.tree.map(lambda *each: jnp.stack(each), *episodes)
    run = eqx.filter_jit(eqx.filter_vmap(remember, in_axes=(None, 0, 0, 0, None)))
    _, found = run(model, *together, KEY)
    for index, given in enumerate(episodes):
        expected = remember(model, *given, KEY)[1]
        np.testing.assert_allclose(found.patterns[index], expected.patterns, atol=2e-3)


@pytest.mark.parametrize("name", MODELS)
def test_a_loss_has_a_gradient_in_all_that_is_trained(name):
    model = model_of(name)
    patterns, queries, _ = episode(model)

    def loss(model, patterns, queries):
        return model.loss(patterns, queries, key=KEY)

    (value, recalled), gradient = eqx.filter_jit(eqx.filter_value_and_grad(loss, has_aux=True))(
        model, patterns, queries
    )
    assert np.isfinite(value)
    assert recalled.shape == patterns.shape
    gradients = named_arrays(gradient)
    assert bool(gradients) == (name in TRAINED)
    assert all(np.isfinite(array).all() for array in gradients.values())
    unused = {name for name, array in gradients.items() if not array.any()}
    assert unused <= {"energy.out.bias"}  # a constant of the energy changes nothing


@pytest.mark.parametrize("name", ["EBMM", "MANN", "Kanerva machine", "VAE"])  # the usual loss, and two of their own
def test_the_loss_of_several_copies_is_the_mean_of_theirs(name):
    model = model_of(name)
    (patterns, *one), (_, *other) = (episode(model, seed) for seed in (0, 1))
    other[0] = jnp.where(other[1], patterns, other[0])  # another copy of the same patterns
    loss = eqx.filter_jit(lambda model, queries, known: model.loss(patterns, queries, known=known, key=KEY))
    values, recalls = zip(*(loss(model, *copy) for copy in (one, other)), strict=True)
    both, recalled = loss(model, *(jnp.concatenate(pair) for pair in zip(one, other, strict=True)))
    assert float(both) == pytest.approx(float(np.mean(values)), rel=1e-5)
    np.testing.assert_allclose(recalled, np.concatenate(recalls), atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_models_and_memories_survive_the_disk(name, tmp_path):
    model = model_of(name)
    patterns, queries, known = episode(model)
    memory = Memory(model).write(patterns)
    memory.save_pretrained(tmp_path / "model")
    memory.save(tmp_path / "memory.safetensors")
    loaded = Memory.load(tmp_path / "memory.safetensors", tmp_path / "model")
    np.testing.assert_array_equal(
        loaded.read(queries, known=known).patterns, memory.read(queries, known=known).patterns
    )
    assert loaded.memory_size == model.memory_size


@pytest.mark.parametrize("name", MODELS)
def test_bad_patterns_are_refused_in_words(name):
    memory = Memory(model_of(name))
    patterns, _, _ = episode(memory.model)
    with pytest.raises(ValueError, match="shape"):
        memory.write(patterns[:, :-1])
    with pytest.raises(ValueError, match="patterns"):
        memory.write(3 * patterns + 7)
