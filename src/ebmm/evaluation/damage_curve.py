"""How the error grows with the damage."""

from collections.abc import Callable, Sequence

import equinox as eqx
from jaxtyping import PRNGKeyArray

from ..data.distortions import AbstractDistortion
from ..data.episodes import Episodes
from ..interface import AbstractMemoryModel
from .errors import Errors, Watch, measure_errors


def damage_curve(
    model: AbstractMemoryModel | None,
    episodes: Episodes,
    strengths: Sequence[AbstractDistortion],
    *,
    key: PRNGKeyArray,
    metric: str = "hamming",
    batches: int = 100,
    watch: Callable[[str], Watch] = lambda _: iter,
) -> dict[str, Errors]:
    """The errors for each damage by its name, on the same batches; damage of one kind is compiled once."""
    return {
        damage.name: measure_errors(
            model,
            eqx.tree_at(lambda e: e.damage, episodes, damage),
            key=key,
            metric=metric,
            batches=batches,
            watch=watch(damage.name),
        )
        for damage in strengths
    }
