"""What is reported is what was measured, in bits as well as in floats."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from ebmm.evaluation.errors import Errors
from ebmm.evaluation.report import energy_report, energy_table, error_report, error_table, of_pairs, strength_table


@pytest.fixture
def errors(rng):
    values = rng.random((4, 50))
    return Errors(
        *values[:3], exact_bits=np.full(50, 640), iterates=rng.random((50, 5)), not_finite=np.zeros(50), kept={}
    )


def shown(table):
    console = Console(file=io.StringIO(), width=120)
    console.print(table)
    return console.file.getvalue()


def test_the_error_is_that_of_the_last_read_step(errors):
    report = error_report(errors, patterns=10, memory_size=33)
    assert report["error"] == report["iterates"][-1]
    assert report["error"]["mean"] == pytest.approx(errors.iterates[:, -1].mean())
    assert report["error"]["high"] == pytest.approx(np.percentile(errors.iterates[:, -1], 95))
    assert json.loads(json.dumps(report)) == report


def test_memory_is_told_in_bits_beside_floats(errors):
    report = error_report(errors, patterns=10, memory_size=33)
    assert report["memory"] == {"floats": 33, "bits": 33 * 32, "bits_per_pattern": 105.6}
    assert report["yardsticks"]["exact"]["bits_per_pattern"] == 64


def test_the_yardsticks_are_always_printed(errors):
    for size in (None, 33):
        text = shown(error_table(error_report(errors, patterns=10, memory_size=size), title="t", metric="hamming"))
        assert "doing nothing" in text
        assert "blanked" in text
        assert "exact store" in text
        assert "640" in text
    assert "1,056" in text


def test_strengths_are_printed_with_and_without_a_model(errors):
    alone = Errors(
        errors.nothing, errors.blanked, errors.exact, errors.exact_bits, iterates=None, not_finite=None, kept={}
    )
    reports = {"block:2": error_report(errors, patterns=10), "block:4": error_report(alone, patterns=10)}
    text = shown(strength_table(reports, metric="squared"))
    assert "block:4" in text
    assert f"{errors.read.mean():.2f}" in text


def test_energies_left_out_do_not_count():
    non_memories = np.ma.masked_array([[1.0, -9.0]], mask=[[False, True]])
    report = energy_report({"memories": np.ma.zeros((1, 2)), "non-memories": non_memories})
    expected = {"mean": 1.0, "low": 1.0, "high": 1.0, "told_apart": 1.0, "not_finite": 0}
    assert report["non-memories"] == expected
    assert "100 %" in shown(energy_table(report))


def test_a_hundred_per_cent_of_pairs_are_all():
    assert [of_pairs(share) for share in (1.0, 0.99998, 0.5)] == ["100 %", "99.99 %", "50 %"]


def test_energies_that_are_no_numbers_are_counted_and_a_kind_without_any_has_no_mean():
    nothing = np.ma.masked_array([[1.0, 2.0]], mask=True)
    levels = {"memories": np.ma.array([[0.0, np.nan]]), "recalled": np.ma.array([[np.nan, np.nan]]), "none": nothing}
    report = energy_report(levels)
    assert report["memories"]["not_finite"] == 1
    assert report["recalled"]["mean"] is None
    assert report["none"]["told_apart"] is None
    assert "–" in shown(energy_table(report))


def test_a_model_that_has_diverged_is_called_so(errors):
    broken = replace(errors, not_finite=np.full(50, 0.25))
    report = error_report(broken, patterns=10, memory_size=33)
    assert report["not_finite"] == 0.25
    assert "25.0% of the reads are not finite" in shown(error_table(report, title="t", metric="hamming"))
