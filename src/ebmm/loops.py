"""How the loops of writing and reading are compiled and differentiated; what they compute is the same."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
from jax.lax import conv_general_dilated_p, dot_general_p
from jaxtyping import PyTree

from .convolution import PRIMITIVES
from .gradients import limit_cotangent

Keep = Literal["all", "products", "nothing"]


@dataclass(frozen=True)
class Loop:
    """Settings of a scan."""

    unroll: bool = False
    """One copy of the code for each step: longer to compile, sometimes faster."""
    keep: Keep = "all"
    """What a step keeps for the way back: all that it computed, the results of matrix products and convolutions, or
    nothing. The rest is computed again.
    """
    cotangent_limit: float | None = None
    """Clip the cotangent of what is written at this norm on the way back into each write step."""

    def scan(self, step: Callable[[Any, Any], Any], start: PyTree, over: PyTree, *, limited: bool = False) -> Any:
        """`jax.lax.scan`; `limited` is whether the limit applies to what is carried along."""
        limit = self.cotangent_limit if limited else None

        def limited_step(carry: Any, x: Any) -> Any:
            carry, y = step(carry, x)
            return carry if limit is None else limit_cotangent(carry, limit), y

        # The loop itself keeps the first pass and the second apart, unless it is unrolled.
        again = partial(jax.checkpoint, prevent_cse=self.unroll)
        kept = {"all": lambda f: f, "products": partial(again, policy=_is_product), "nothing": again}[self.keep]
        return jax.lax.scan(kept(limited_step), start, over, unroll=self.unroll)


def _is_product(primitive: Any, *_: Any, **__: Any) -> bool:
    return primitive in (dot_general_p, conv_general_dilated_p, *PRIMITIVES)


PLAIN = Loop()
