"""How the loops of writing and reading are compiled and differentiated; what they compute is the same."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jaxtyping import PyTree

from .gradients import limit_cotangent


@dataclass(frozen=True)
class Loop:
    """Settings of a scan."""

    unroll: bool = False
    """One copy of the code for each step: longer to compile, sometimes faster."""
    remat: bool = False
    """Compute a step again on the way back instead of keeping what it computed: less memory, more time."""
    cotangent_limit: float | None = None
    """Clip the cotangent of what is written at this norm on the way back into each write step."""

    def scan(self, step: Callable[[Any, Any], Any], start: PyTree, over: PyTree, *, limited: bool = False) -> Any:
        """`jax.lax.scan`; `limited` is whether the limit applies to what is carried along."""
        limit = self.cotangent_limit if limited else None

        def limited_step(carry: Any, x: Any) -> Any:
            carry, y = step(carry, x)
            return carry if limit is None else limit_cotangent(carry, limit), y

        return jax.lax.scan(
            jax.checkpoint(limited_step) if self.remat else limited_step, start, over, unroll=self.unroll
        )


PLAIN = Loop()
