"""What half precision does to meta-gradients, and what scaling the loss is for.

    python benchmarks/half_precision.py binary-rnn --on strings --out half-precision.json

The gradients of the same episodes in float32, and with the energy in float16 for several scales of the loss: how alike
they are, and how many are lost because a cotangent inside the energy is beyond what float16 can hold. On a CPU, which
multiplies float32 as it is; a GPU rounds the factors of a product to TF32, which has as many digits as float16.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ebmm import EBMM, Memory
from ebmm.core.precision import LOSS_SCALE
from ebmm.data import DATASETS
from ebmm.data.binary import strings
from ebmm.data.distortions import distortion
from ebmm.data.episodes import Episodes
from ebmm.evaluation.protocols import PROTOCOLS
from ebmm.fewer import for_fewer
from ebmm.files import as_json, write_whole
from ebmm.provenance import provenance
from ebmm.training.settings import Precision, Settings, Stage
from ebmm.training.trainer import in_training
from ebmm.training.update import episode_objective, in_fastest_form

Found = tuple[float, np.ndarray]  # an episode's error and its gradient


def main(
    model: Annotated[str, tyro.conf.Positional] = "binary-rnn",
    on: str = "strings",
    patterns: int = 64,
    episodes: int = 30,
    scales: tuple[float, ...] = (1.0, LOSS_SCALE, 2.0**-10),
    out: Path | None = None,
) -> None:
    """Args:
    model: A bundled model by its name, or the folder of a saved one.
    on: What to store and how to damage it, as in `ebmm evaluate`.
    patterns: In an episode; with fewer than in training the write steps are shortened.
    episodes: To compare.
    scales: Of the loss, for float16.
    out: Where to save it all as JSON.
    """
    memory = Memory.from_pretrained(model)
    given = for_fewer(memory.model, patterns, (memory.trained or {}).get("patterns"))
    assert isinstance(given, EBMM)
    protocol = PROTOCOLS[on]
    source = strings(128) if protocol.data == "strings" else DATASETS[protocol.data].images("test")
    sample = Episodes(source, distortion(protocol.damage), patterns, reveal=protocol.reveal)
    keys = [jax.random.key(episode) for episode in range(episodes)]

    find = gradients(given, sample, protocol.metric, "float32")
    exact = [find(key, 1.0) for key in track(keys, "float32")]
    find = gradients(given, sample, protocol.metric, "float16")
    rows = [{"precision": "float32", "scale": 1.0, **compared(exact, exact)}]
    for scale in scales:
        rounded = [find(key, scale) for key in track(keys, f"float16, loss × {scale:g}")]
        rows.append({"precision": "float16", "scale": scale, **compared(exact, rounded)})
    report = {"model": model, "on": on, "patterns": patterns, "episodes": episodes, "rows": rows}
    if out:
        write_whole({out: as_json({**report, **provenance(seed=0)})})
    table = Table("", "wrong", "lost", "cosine", "its lowest", title=f"{episodes} episodes of {patterns}, {model}")
    for row in rows:
        name = row["precision"] if row["precision"] == "float32" else f"float16, loss × {row['scale']:g}"
        cosines = ("–" if row[key] is None else f"{row[key]:.4f}" for key in ("cosine", "lowest_cosine"))
        table.add_row(name, f"{row['error']:.2f}", str(row["lost"]), *cosines)
    Console().print(table)


def gradients(model: EBMM, sample: Episodes, metric: str, precision: Precision) -> Callable[[Array, float], Found]:
    """From an episode's key and the scale of its loss to what training would find for it."""
    settings = Settings(
        updates=1, stages=(Stage(sample.patterns, 1, 1),), precision=precision, cotangent_limit=None
    )  # a limit would hide what is too large
    parameters, rest = eqx.partition(in_training(model, settings), eqx.is_inexact_array)

    @jax.jit
    def found(key: Array, scale: Array) -> tuple[Array, Array]:
        def loss(parameters: Any) -> tuple[Array, Array]:
            loss, error = episode_objective(
                in_fastest_form(eqx.combine(parameters, rest), settings), sample, metric, key
            )
            return scale * loss, error

        gradient, error = jax.grad(loss, has_aux=True)(parameters)
        return error, jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(gradient)]) / scale

    def of_episode(key: Array, scale: float) -> Found:
        error, gradient = found(key, jnp.asarray(scale))
        return float(error), np.asarray(gradient, np.float64)

    return of_episode


def compared(exact: list[Found], rounded: list[Found]) -> dict[str, Any]:
    pairs = [(a, b) for (_, a), (_, b) in zip(exact, rounded, strict=True) if np.isfinite(b).all()]
    cosines = [float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in pairs]
    return {
        "error": float(np.mean([error for error, _ in rounded])),
        "lost": len(exact) - len(pairs),
        "cosine": float(np.mean(cosines)) if cosines else None,
        "lowest_cosine": min(cosines, default=None),
    }


if __name__ == "__main__":
    tyro.cli(main)
