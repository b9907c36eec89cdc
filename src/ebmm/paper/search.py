"""The step size of a VAE's read, which the paper searches for too: chosen on drawings of the training split."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..baselines import VAE
from ..evaluation.errors import measure_errors
from ..evaluation.protocols import Protocol

SPLIT = "train"
RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
BATCHES = 8


@dataclass(frozen=True)
class RateErrors:
    """The mean error after every read step, by the size of the steps."""

    by_rate: dict[float, np.ndarray]
    batches: int

    def best(self, steps: int) -> float:
        """After so many steps."""
        return min(self.by_rate, key=lambda rate: self.by_rate[rate][steps - 1])

    def report(self, steps: int) -> dict[str, Any]:
        errors = {f"{rate:g}": float(values[steps - 1]) for rate, values in self.by_rate.items()}
        chosen = {"read_steps": steps, "chosen": self.best(steps), "errors": errors}
        return {"split": SPLIT, "batches": self.batches, **chosen}


def rate_errors(model: VAE, protocol: Protocol, *, steps: int, key: PRNGKeyArray) -> RateErrors:
    """Of reads with each of the rates, all on the same batches; fewer steps are the beginning of the same reads."""
    episodes = protocol.episodes(SPLIT)

    def errors(rate: float) -> np.ndarray:
        as_array = eqx.tree_at(
            lambda m: m.read_rate, model.read_with(steps=steps, rate=rate), jnp.asarray(rate)
        )  # compiled once for all rates
        found = measure_errors(as_array, episodes, key=key, metric=protocol.metric, batches=BATCHES)
        assert found.iterates is not None
        return found.iterates.mean(axis=0)

    return RateErrors({rate: errors(rate) for rate in RATES}, BATCHES)
