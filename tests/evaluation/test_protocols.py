"""The protocols are the paper's."""

import jax
import numpy as np
import pytest

from ebmm.data.images import Correlated
from ebmm.evaluation.protocols import PROTOCOLS, Protocol


def test_every_protocol_names_data_and_damage_that_exist():
    from ebmm.data import DATASETS
    from ebmm.data.distortions import distortion
    from ebmm.evaluation.metrics import METRICS

    for protocol in PROTOCOLS.values():
        assert protocol.data in (*DATASETS, "strings")
        assert protocol.metric in METRICS
        assert distortion(protocol.damage).name == protocol.damage


def test_strings_are_half_resampled_and_half_clamped():
    stored, queries, known = PROTOCOLS["strings"].episodes()(jax.random.key(0))
    assert stored.shape == (64, 128)
    assert np.all(np.asarray(known).sum(axis=1) == 64)
    assert np.mean(np.sum(stored != queries, axis=1)) == pytest.approx(32, abs=2)


def test_the_reader_of_images_is_not_told_where_the_block_is():
    episode = PROTOCOLS["omniglot-sample"].episodes()(jax.random.key(0))
    assert episode.patterns.shape == (64, 32, 32, 1)
    assert episode.known is None


def test_correlated_batches_have_two_classes():
    protocol = Protocol("omniglot-sample", 32, "block:16", classes=2)
    source = protocol.episodes().source
    assert isinstance(source, Correlated)
    assert source.draw(32, key=jax.random.key(0)).shape == (32, 32, 32, 1)


def test_unknown_data_is_refused():
    with pytest.raises(ValueError, match="data: got 'svhn'; expected strings, omniglot"):
        Protocol("svhn", 1, "block:2").episodes()
