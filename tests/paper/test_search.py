"""The step size of a read is the one that was best on training patterns."""

import jax
import numpy as np
import pytest

from ebmm.baselines import VAE
from ebmm.evaluation.errors import measure_errors
from ebmm.evaluation.protocols import Protocol
from ebmm.paper import search

RATES = (1e-3, 0.3)


@pytest.fixture
def found(monkeypatch, key):
    monkeypatch.setattr(search, "RATES", RATES)
    monkeypatch.setattr(search, "BATCHES", 3)
    model = VAE((8,), domain=(-1.0, 1.0), latents=4, hidden=8, key=jax.random.key(1))
    protocol = Protocol("strings", 5, "bits:0.5", bits=8)
    return model, protocol, search.rate_errors(model, protocol, steps=4, key=key)


def test_fewer_steps_are_the_beginning_of_the_same_reads(found, key):
    model, protocol, errors = found
    for rate in RATES:
        read = model.read_with(steps=2, rate=rate)
        alone = measure_errors(read, protocol.episodes("train"), key=key, batches=3)
        np.testing.assert_allclose(errors.by_rate[rate][:2], alone.iterates.mean(axis=0), rtol=1e-6)
        assert len(errors.by_rate[rate]) == 4


def test_the_best_rate_depends_on_the_number_of_steps():
    errors = search.RateErrors({0.01: np.array([9.0, 2.0]), 0.1: np.array([5.0, 4.0])}, 3)
    assert (errors.best(1), errors.best(2)) == (0.1, 0.01)
    report = errors.report(2)
    assert report["errors"] == {"0.01": 2.0, "0.1": 4.0}
    assert (report["chosen"], report["read_steps"], report["split"], report["batches"]) == (0.01, 2, "train", 3)
