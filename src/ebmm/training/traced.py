"""Traced updates on disk, so that Python need not trace them again.

JAX keeps what XLA has compiled, but asks for it only after tracing, which takes 8 to 9 s for the paper's convolutional
network. `jax.export` writes down what tracing gives; a later start reads it and goes straight to the compiled program.
It is for the command line: a name on disk covers the code of this package and JAX's own settings, but not what a
program that uses this library may have changed in either.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.export
import jax.numpy as jnp
from jaxtyping import Array

from ..data.episodes import Episodes
from ..files import write_whole
from .settings import Settings
from .update import Learner, Report, compiler_options, updates

ALSO = ("jax", "jaxlib", "equinox", "optax")
"""Packages that an update is traced through."""
KEPT = 64
"""Files; every change of the code makes new ones, of up to a megabyte each."""


@dataclass
class TracedUpdates:
    """Runs updates like `run_updates`, on one device, and keeps what was traced in a folder."""

    folder: Path
    identity: str
    """Of the model, the data and the settings: of all that an update depends on but arrays, and code."""
    ready: dict[tuple[int, int, str, int], Callable[..., Any]] = field(default_factory=dict)
    """By patterns, episodes, metric and updates in a call."""

    def __call__(
        self, learner: Learner, sample: Episodes, episodes: int, metric: str, settings: Settings, *rest: Any
    ) -> tuple[Learner, Report]:
        """As `updates` with the same arguments, without a mesh."""
        key, indices, rates = rest
        leaves, structure = jax.tree.flatten((learner, sample, key, jnp.asarray(indices), jnp.asarray(rates)))
        places = [place for place, leaf in enumerate(leaves) if eqx.is_array(leaf)]
        others = [None if eqx.is_array(leaf) else leaf for leaf in leaves]  # what is compiled shall hold no arrays

        def of_arrays(*arrays: Array) -> list[Array]:
            learner, sample, *more = jax.tree.unflatten(structure, replaced(others, places, arrays))
            found = updates(learner, sample, episodes, metric, settings, *more)
            return [leaf for leaf in jax.tree.leaves(found) if eqx.is_array(leaf)]

        arrays = [leaves[place] for place in places]
        which = (sample.patterns, episodes, metric, len(indices))
        if which not in self.ready:
            self.ready[which] = self._program(which, of_arrays, arrays, settings)
        *learned, loss, error, norm, dropped, stepped_back, skipped = self.ready[which](*arrays)
        of_learner = structure.children()[0]  # its leaves come first, and updates leave their order and number alone
        learner = jax.tree.unflatten(of_learner, replaced(others[: of_learner.num_leaves], places, learned))
        return learner, Report(loss, error, norm, dropped, stepped_back, skipped)

    def _program(
        self, which: Any, of_arrays: Callable[..., Any], arrays: list[Array], settings: Settings
    ) -> Callable[..., Any]:
        shapes = [f"{leaf.dtype}{leaf.shape}" for leaf in arrays]
        path, options = self.folder / f"{name_of([self.identity, which, shapes])}.traced", compiler_options(settings)
        exported = _read(path)
        if exported is None:
            try:
                exported = jax.export.export(jax.jit(of_arrays))(*arrays)
                content = bytes(exported.serialize())
            except (ValueError, NotImplementedError):  # a part of it cannot be written down: traced every time
                return jax.jit(of_arrays, compiler_options=options)
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                write_whole({path: content})
                for old in sorted(self.folder.glob("*.traced"), key=lambda each: each.stat().st_mtime)[:-KEPT]:
                    old.unlink()
            except OSError:  # no place to keep it, or another process was faster
                pass
        # Compiled here and now: what comes out is bound to its device, what went in first is not, and `jit` would
        # compile once for each.
        return jax.jit(exported.call, compiler_options=options).lower(*arrays).compile()


def replaced(leaves: list[Any], places: list[int], arrays: Sequence[Array]) -> list[Any]:
    """The same list with the arrays at their places; further places are left out."""
    leaves = list(leaves)
    for place, array in zip(places, arrays, strict=False):
        leaves[place] = array
    return leaves


def _read(path: Path) -> jax.export.Exported | None:
    """What was traced before, if it is there and whole."""
    try:
        return jax.export.deserialize(bytearray(path.read_bytes()))
    except Exception:  # not there, or damaged, which shows in many ways: tracing again replaces it
        return None


def name_of(what: Any) -> str:
    """A name for something to trace: of what it is, of the code, of JAX's settings and of the device."""
    values: dict[str, Any] = jax.config.values
    plain = {name: value for name, value in values.items() if isinstance(value, str | bool | int | float | None)}
    device = jax.devices()[0]
    about = [what, _code(), plain, device.platform, device.device_kind, [version(package) for package in ALSO]]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


@cache
def _code() -> str:
    """A hash of this package's sources."""
    root = Path(__file__).parents[1]
    sha = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        sha.update(f"{path.relative_to(root)} {path.stat().st_size} ".encode() + path.read_bytes())
    return sha.hexdigest()
