"""The object a user holds: what it stores, what it refuses, and what it leaves on disk."""

import inspect
from dataclasses import FrozenInstanceError, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import small_rnn, strings
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmm import Memory, new_model
from ebmm.checks import as_patterns
from ebmm.energies import GatedRNN, ResNetConv
from ebmm.pretrained import model_hash


@pytest.fixture(scope="module")
def memory():
    return Memory(small_rnn(), "small-rnn")


@pytest.fixture(scope="module")
def written(memory):
    return memory.write(strings(4, 6))


def test_writing_returns_a_new_memory_and_leaves_the_old_one(memory):
    before = jax.tree.map(np.array, memory.state)
    after = memory.write(strings(4, 6))
    assert after.patterns_stored == 4
    assert memory.patterns_stored == 0
    jax.tree.map(np.testing.assert_array_equal, memory.state, before)
    with pytest.raises(FrozenInstanceError):
        memory.state = None


def test_each_write_starts_from_the_meta_learned_weights(memory, written):
    again = memory.write(strings(4, 6, seed=5)).write(strings(4, 6))
    jax.tree.map(np.testing.assert_array_equal, again.state, written.state)


def test_a_batch_and_a_single_pattern_read_alike(written):
    queries = strings(3, 6, seed=2)
    known = np.asarray(queries) > 0
    batch = written.read(queries, known=known)
    assert batch.patterns.shape == (3, 6)
    assert batch.trajectory.shape == (3, 3, 6)
    assert batch.energies.shape == (4, 3)
    one = written.read(queries[1], known=known[1])
    np.testing.assert_allclose(one.patterns, batch.patterns[1], atol=1e-6)
    np.testing.assert_allclose(one.trajectory, batch.trajectory[:, 1], atol=1e-6)
    np.testing.assert_allclose(one.energies, batch.energies[:, 1], atol=1e-6)
    np.testing.assert_allclose(written.energy(queries), batch.energies[0], atol=1e-6)
    np.testing.assert_allclose(written.energy(queries[1]), batch.energies[0, 1], atol=1e-6)


def test_known_dimensions_are_kept_and_one_mask_may_serve_all(written):
    queries = strings(3, 6, seed=2)
    known = np.array([True, False, True, False, True, False])
    out = written.read(queries, known=known)
    np.testing.assert_array_equal(out.trajectory[..., known], np.broadcast_to(queries[:, known], (3, 3, 3)))
    each = written.read(queries, known=np.broadcast_to(known, (3, 6)))
    np.testing.assert_array_equal(out.patterns, each.patterns)


def test_one_pattern_is_a_batch_of_one(memory):
    pattern = strings(6)
    jax.tree.map(np.testing.assert_array_equal, memory.write(pattern).state, memory.write(pattern[None]).state)


@pytest.mark.parametrize(
    "convert", [list, np.asarray, lambda x: np.asarray(x, np.int8), lambda x: np.asarray(x, float)]
)
def test_what_holds_the_same_numbers_is_stored_alike(memory, written, convert):
    patterns = convert(np.asarray(strings(4, 6)).tolist())
    jax.tree.map(np.testing.assert_array_equal, memory.write(patterns).state, written.state)


def test_repr_says_what_it_is(memory, written):
    assert "small-rnn" in repr(memory)
    assert "nothing yet" in repr(memory)
    assert "4 patterns" in repr(written)
    assert "memory_size=21 floats" in repr(written)
    assert "[-1, 1]" in repr(written)


GOOD = np.ones((2, 6), np.float32)
BAD = {
    "wrong shape": (
        np.ones((2, 5)),
        r"got shape \(2, 5\); expected one pattern of shape \(6,\) or a batch of shape \(n, 6\)",
    ),
    "too many axes": (np.ones((1, 2, 6)), r"got shape \(1, 2, 6\); expected one pattern"),
    "a number": (1.0, r"got shape \(\); expected one pattern"),
    "complex": (GOOD + 1j, "got dtype complex64; expected real numbers"),
    "text": ([["a"] * 6], "expected real numbers"),
    "ragged": ([[1.0] * 6, [1.0] * 5], "not an array"),
    "empty": (np.ones((0, 6)), r"empty batch of shape \(0, 6\); expected at least one"),
    "NaN": (np.where(np.eye(2, 6) > 0, np.nan, 1.0), "pattern 0 holds NaN or infinity"),
    "infinity": (np.vstack([GOOD, np.full((1, 6), np.inf)]), "pattern 2 holds NaN or infinity"),
    "too large for float32": (GOOD.astype(float) * 1e300, "NaN or infinity"),
    "outside": (3 * GOOD, r"got values from 3 to 3; this memory holds values in \[-1, 1\]"),
}


@pytest.mark.parametrize("given_as", BAD)
def test_bad_patterns_are_refused_everywhere(written, given_as):
    bad, complaint = BAD[given_as]
    for method, what in ((written.write, "patterns"), (written.energy, "patterns"), (written.read, "queries")):
        with pytest.raises(ValueError, match=complaint) as error:
            method(bad)
        assert str(error.value).startswith(what)


def test_eight_bit_images_get_a_hint():
    with pytest.raises(ValueError, match="Divide 8-bit images by 255"):
        as_patterns(np.full((1, 2), 200), (2,), (0.0, 1.0), np.dtype("float32"), what="patterns")


@pytest.mark.parametrize(
    ("mask", "complaint"),
    [
        (np.ones((3, 6), bool), r"known: got shape \(3, 6\); expected \(6,\) for all queries or \(2, 6\)"),
        (np.ones((2, 6)), "known: got dtype float64; expected a bool mask"),
    ],
)
def test_bad_masks_are_refused(written, mask, complaint):
    with pytest.raises(ValueError, match=complaint):
        written.read(GOOD, known=mask)


shapes = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@settings(max_examples=200, deadline=None)
@given(
    pattern=shapes.filter(lambda s: 0 not in s),
    given_shape=shapes,
    dtype=st.sampled_from(
        ["float16", "float32", "float64", "int8", "uint8", "bool", "complex64", "object", "U1", "datetime64[s]"]
    ),
    value=st.sampled_from([0, 1]),
)
def test_the_door_lets_a_batch_in_or_says_why_not(pattern, given_shape, dtype, value):
    given_array = np.full(given_shape, value).astype(dtype)
    fits = given_array.shape == pattern or (
        given_array.shape[1:] == pattern and given_array.ndim > len(pattern) and given_array.shape[0]
    )
    if fits and given_array.dtype.kind in "fiub":
        batch, single = as_patterns(given_array, pattern, (0.0, 1.0), np.dtype("float32"), what="patterns")
        assert batch.dtype == np.float32
        assert batch.shape == ((1, *pattern) if single else given_array.shape)
        assert (batch == value).all()
    else:
        with pytest.raises(ValueError, match=r"patterns: got .*; expected|patterns: got an empty batch"):
            as_patterns(given_array, pattern, (0.0, 1.0), np.dtype("float32"), what="patterns")


def test_save_and_load_give_the_same_memory(memory, written, tmp_path):
    path = tmp_path / "strings.safetensors"
    written.save(path)
    loaded = Memory.load(path, memory)
    assert loaded.patterns_stored == 4
    jax.tree.map(np.testing.assert_array_equal, loaded.state, written.state)
    np.testing.assert_array_equal(loaded.read(GOOD).patterns, written.read(GOOD).patterns)
    assert [p.name for p in tmp_path.iterdir()] == ["strings.safetensors"]


def test_a_saved_memory_finds_its_model_again(memory, tmp_path):
    memory.save_pretrained(tmp_path / "model")
    fresh = Memory.from_pretrained(tmp_path / "model")
    assert fresh.name == "small-rnn"
    assert repr(fresh) == repr(memory)
    fresh.write(GOOD).save(tmp_path / "m.safetensors")
    for loaded in (
        Memory.load(tmp_path / "m.safetensors"),
        Memory.load(tmp_path / "m.safetensors", tmp_path / "model"),
    ):
        assert loaded.patterns_stored == 2
    np.testing.assert_array_equal(loaded.read(GOOD).patterns, memory.write(GOOD).read(GOOD).patterns)


def test_the_papers_memory_of_9232_floats_is_saved_in_40_kilobytes(tmp_path):
    """The shapes alone matter here, so that nothing large is compiled."""
    energy = ResNetConv(key=jax.random.key(0))
    like = small_rnn()
    rates = replace(like.write_rates, raw=jnp.zeros((5, 2, 3)))
    memory = Memory(type(like)(energy, rates, like.read_rates, (32, 32, 1)))
    assert memory.memory_size == 9232
    memory.save(tmp_path / "m.safetensors")
    assert 9232 * 4 < (tmp_path / "m.safetensors").stat().st_size < 40_000


def test_another_models_file_is_refused_by_name(memory, written, tmp_path):
    path = tmp_path / "m.safetensors"
    written.save(path)
    other = Memory(small_rnn(seed=1), "another-rnn")
    with pytest.raises(ValueError, match=r"written with model 'small-rnn' \(hash \w+\); got 'another-rnn'"):
        Memory.load(path, other)


def test_a_memory_whose_model_is_unknown_asks_for_it(written, tmp_path):
    path = tmp_path / "m.safetensors"
    written.save(path)
    with pytest.raises(ValueError, match="needs its model 'small-rnn'; pass it"):
        Memory.load(path)
    replace(written, source=str(tmp_path / "gone")).save(path)
    with pytest.raises(FileNotFoundError, match=r"pass it.*It was once in .*gone"):
        Memory.load(path)


def test_bad_files_are_refused(memory, written, tmp_path):
    path = tmp_path / "m.safetensors"
    written.save(path)
    whole = path.read_bytes()

    def refused(content, complaint):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=complaint):
            Memory.load(path, memory)

    refused(whole[:-8], "truncated or no safetensors file")
    refused(whole[:20], "truncated or no safetensors file")
    refused(b"", "truncated or no safetensors file")
    refused(b"\x89PNG\r\n\x1a\n" + b"\0" * 100, "truncated or no safetensors file")
    flipped = bytearray(whole)
    flipped[-3] ^= 1
    refused(bytes(flipped), "corrupted: its content is not what was saved")
    refused(whole.replace(b'"version":"1"', b'"version":"9"'), "version 9; this ebmm reads up to 1. Upgrade")
    refused(whole.replace(b'"patterns":"4"', b'"patterns":"5"'), "corrupted")
    refused(whole.replace(b"ebmm-memory", b"some-memory"), "format some-memory; expected ebmm-memory")
    memory.save_pretrained(tmp_path / "model")
    refused((tmp_path / "model" / "model.safetensors").read_bytes(), "format ebmm-model; expected ebmm-memory")
    with pytest.raises(FileNotFoundError, match="nothing-here does not exist; expected a file of format ebmm-memory"):
        Memory.load(tmp_path / "nothing-here", memory)
    with pytest.raises(ValueError, match="is a folder; expected"):
        Memory.load(tmp_path, memory)


def test_a_failed_save_leaves_nothing_behind(written, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="The folder .*missing does not exist, so m.safetensors was not saved"):
        written.save(tmp_path / "missing" / "m.safetensors")
    with pytest.raises(ValueError, match="is a folder; expected the name of a file"):
        written.save(tmp_path)
    path = tmp_path / "m.safetensors"
    written.save(path)
    before = path.read_bytes()

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        written.write(GOOD).save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]
    assert path.read_bytes() == before


class Own(eqx.Module):
    layer: eqx.nn.Linear

    def __init__(self, seed=0):
        self.layer = eqx.nn.Linear(6, 3, key=jax.random.key(seed))

    def __call__(self, x):
        return jnp.sum(jnp.tanh(self.layer(x)))


def test_a_model_from_an_energy_of_your_own_comes_back_with_it(tmp_path):
    def where(energy):
        return energy.layer

    model = new_model(Own(), strings(2, 6), where=where, domain=(-1.0, 1.0), write_steps=2, read_steps=2)
    Memory(model).save_pretrained(tmp_path / "own")
    loaded = Memory.from_pretrained(tmp_path / "own", energy=Own(seed=1), where=where)
    np.testing.assert_array_equal(loaded.write(GOOD).energy(GOOD), Memory(model).write(GOOD).energy(GOOD))
    with pytest.raises(ValueError, match="made from an energy of your own; pass it"):
        Memory.from_pretrained(tmp_path / "own")


def test_a_model_without_the_gradient_term_stays_without_it(memory, tmp_path):
    without = Memory(replace(memory.model, gradient_term=False), "without")
    without.save_pretrained(tmp_path / "without")
    loaded = Memory.from_pretrained(tmp_path / "without")
    assert loaded.model.gradient_term is False
    patterns = strings(4, 6)
    for a, b in zip(*(jax.tree.leaves(each.write(patterns).state) for each in (without, loaded)), strict=True):
        np.testing.assert_array_equal(a, b)
    config = tmp_path / "without" / "config.json"
    said = config.read_text()
    config.write_text(said.replace('"gradient_term": false', '"gradient_term": true'))
    with pytest.raises(ValueError, match="belong to different models"):
        Memory.from_pretrained(tmp_path / "without")
    config.write_text(said.replace('"gradient_term": false', '"gradient_term": 0'))
    with pytest.raises(ValueError, match="is damaged: gradient_term is 0"):
        Memory.from_pretrained(tmp_path / "without")


def test_a_hash_tells_models_apart_that_share_their_arrays(tmp_path):
    """Which layers are written and which functions are applied matters as much as the arrays."""

    def mlp(activation):
        return eqx.nn.MLP(6, "scalar", 6, 2, activation=activation, key=jax.random.key(0))

    def memory(where, activation=jnp.tanh):
        return Memory(new_model(mlp(activation), strings(2, 6), where=where, domain=(-1.0, 1.0)), "mlp")

    first = memory(lambda e: e.layers[0])
    second = memory(lambda e: e.layers[1])
    other = memory(lambda e: e.layers[0], jax.nn.sigmoid)
    assert len({model_hash(m.model) for m in (first, second, other)}) == 3
    path = tmp_path / "m.safetensors"
    first.save(path)
    assert Memory.load(path, memory(lambda e: e.layers[0])).name == "mlp"
    with pytest.raises(ValueError, match="written with model 'mlp'"):
        Memory.load(path, second)


def test_a_network_saved_with_another_where_asks_for_it(tmp_path):
    energy = GatedRNN(bits=6, memory_width=3, hidden=8, key=jax.random.key(0))

    def where(energy):
        return energy.gate

    Memory(new_model(energy, strings(2, 6), where=where, domain=(-1, 1))).save_pretrained(tmp_path / "m")
    with pytest.raises(ValueError, match=r"saved to write \['gate.weight', 'gate.bias'\]"):
        Memory.from_pretrained(tmp_path / "m")
    assert Memory.from_pretrained(tmp_path / "m", where=where).memory_size == 14 * 8 + 8


def test_a_memory_in_float64(float64, tmp_path):
    memory = Memory(small_rnn())
    written = memory.write(strings(4, 6))
    assert {leaf.dtype for leaf in jax.tree.leaves((written.state, written.read(GOOD)))} == {jnp.dtype("float64")}
    written.save(tmp_path / "m.safetensors")
    jax.tree.map(np.testing.assert_array_equal, Memory.load(tmp_path / "m.safetensors", memory).state, written.state)
    memory.save_pretrained(tmp_path / "model")
    with jax.enable_x64(False), pytest.raises(ValueError, match="is float64; call jax.config.update"):
        Memory.from_pretrained(tmp_path / "model")


def test_writing_that_diverges_is_refused(memory):
    wild = replace(memory.model, write_rates=replace(memory.model.write_rates, raw=jnp.full((2, 1, 3), 1e38)))
    with pytest.raises(ValueError, match="weights that are not finite"):
        Memory(wild).write(GOOD)


def test_what_is_no_model_is_refused():
    """Without the type checks of the tests, as users run it."""
    with pytest.raises(ValueError, match="got model NoneType .*; expected a memory model"):
        inspect.unwrap(Memory.__init__)(Memory.__new__(Memory), None)


def test_half_precision_halves_the_file_and_rounds_the_weights_alone(memory, tmp_path):
    for name, half in (("whole", False), ("half", True)):
        memory.save_pretrained(tmp_path / name, half=half)
    whole, half = ((tmp_path / name / "model.safetensors").stat().st_size for name in ("whole", "half"))
    model, again = memory.model, Memory.from_pretrained(tmp_path / "half").model
    weights = sum(array.size for array in jax.tree.leaves(model.energy) if eqx.is_array(array) and array.ndim > 1)
    assert whole - half == pytest.approx(2 * weights, abs=64)  # bytes; the header says where everything is
    weight = model.energy.gate.weight
    assert again.energy.gate.weight.dtype == weight.dtype
    np.testing.assert_array_equal(again.energy.gate.weight, weight.astype(jnp.float16).astype(weight.dtype))
    for part in (lambda m: m.energy.gate.bias, lambda m: m.write_rates, lambda m: m.read_rates):
        jax.tree.map(np.testing.assert_array_equal, part(again), part(model))
    assert model_hash(again) != model_hash(model)
    Memory(again, "small-rnn").save_pretrained(tmp_path / "again", half=True)
    assert (tmp_path / "again/config.json").read_bytes() == (tmp_path / "half/config.json").read_bytes()


def test_weights_beyond_half_precision_are_refused(memory, tmp_path):
    large = eqx.tree_at(lambda m: m.energy.gate.weight, memory.model, replace_fn=lambda w: 1e6 * w)
    with pytest.raises(ValueError, match=r"energy.gate.weight holds numbers beyond 65,504"):
        Memory(large).save_pretrained(tmp_path / "model", half=True)
    assert not (tmp_path / "model").exists()


def test_a_failed_save_of_a_model_leaves_the_old_one(memory, tmp_path, monkeypatch):
    memory.save_pretrained(tmp_path / "old")
    before = {p.name: p.read_bytes() for p in (tmp_path / "old").iterdir()}

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    for name in ("old", "new"):
        with pytest.raises(OSError, match="No space left"):
            Memory(small_rnn(seed=1)).save_pretrained(tmp_path / name)
    assert {p.name: p.read_bytes() for p in (tmp_path / "old").iterdir()} == before
    assert not (tmp_path / "new").exists()


def test_bad_model_folders_are_refused(memory, tmp_path):
    folder = tmp_path / "model"
    with pytest.raises(FileNotFoundError, match="does not exist; expected a folder with config.json"):
        Memory.from_pretrained(folder)
    with pytest.raises(FileNotFoundError, match="The folder .*no does not exist"):
        memory.save_pretrained(tmp_path / "no" / "model")
    memory.save_pretrained(folder)
    config = (folder / "config.json").read_text()

    def refused(text, complaint):
        (folder / "config.json").write_text(text)
        with pytest.raises(ValueError, match=complaint):
            Memory.from_pretrained(folder)

    refused(config[:50], "is not JSON")
    refused("[]", "does not describe a model")
    refused(config.replace('"hidden": 8', '"hidden": 9'), "has shape .*; this model expects")
    refused(config.replace('"hidden": 8', '"hiden": 8'), "cannot be built as described")
    refused(config.replace('"hops": 2', '"hops": 4'), "belong to different models")
    refused(config.replace('"name": "small-rnn"', '"nick": "small-rnn"'), "damaged: name is 'missing'")
    refused(config.replace('"GatedRNN"', '["x"]', 1), r"damaged: network is \['x'\]")
    refused(config.replace('"read_steps": 3', '"read_steps": 10000000000'), "damaged: read_steps is 10000000000")
    refused(config.replace('"memory.bias"', '"gate.bias"'), "was saved to write")
    refused(config.replace('"version": 1', '"version": 2'), "Upgrade ebmm")
    refused(config.replace('"write_steps"', '"steps"'), "config.json is damaged: write_steps is 'missing'")
    (folder / "config.json").write_text(config)
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors does not exist"):
        Memory.from_pretrained(folder)
