"""The object a user holds: a memory model and what has been written to it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .checks import as_mask, as_patterns
from .core.energy import Energy, Where
from .core.model import EBMM, own_layers
from .files import fill, load_tensors, named_arrays, save_tensors
from .interface import Readout
from .pretrained import load_model, model_hash, save_model

FORMAT = "ebmm-memory"

# Compiled once for each model and batch size, whichever memory asks.
_write = eqx.filter_jit(lambda model, patterns: model.write(patterns))
_read = eqx.filter_jit(lambda model, state, queries, known: model.read(state, queries, known=known))
_energies = eqx.filter_jit(lambda model, state, patterns: model.energies(state, patterns))


@dataclass(frozen=True, eq=False, repr=False)
class Memory:
    """Patterns stored in the weights of a network. Immutable: writing returns a new memory.

    A memory holds one batch of patterns. Each write starts from the meta-learned weights, as it did in
    training, so what was written before is in the earlier memory alone.
    """

    model: EBMM
    name: str = ""
    state: PyTree = None
    patterns_stored: int = 0
    source: str | None = None
    """Where the model came from, so that a saved memory can find it again."""

    def __post_init__(self):
        if not isinstance(self.model, EBMM) or not isinstance(self.name, str):
            given = f"{type(self.model).__name__} and name {self.name!r}"
            raise ValueError(f"Memory: got model {given}; expected an EBMM, as `new_model` makes, and text.")
        if not self.name:
            object.__setattr__(self, "name", type(self.model.energy).__name__)
        if self.state is None:
            object.__setattr__(self, "state", self.model.initial_state)

    @classmethod
    def from_pretrained(cls, path: str | Path, *, energy: Energy | None = None, where: Where = own_layers) -> "Memory":
        """An empty memory with the model in a folder; for one made from your own energy, pass that too."""
        model, name = load_model(Path(path), energy=energy, where=where)
        return cls(model, name, source=str(Path(path).resolve()))

    def save_pretrained(self, path: str | Path) -> None:
        """Save the meta-learned model, without what is stored in it, as a folder for `from_pretrained`."""
        save_model(self.model, Path(path), name=self.name)

    def write(self, patterns: Any) -> "Memory":
        """A new memory that holds these patterns: a batch, or a single one."""
        batch, _ = self._as_patterns(patterns, "patterns")
        state = _write(self.model, batch)
        if not all(jnp.isfinite(array).all() for array in jax.tree.leaves(state)):
            raise ValueError(
                "Writing these patterns gave weights that are not finite: the write rates are too large for them. "
                "Meta-learn the model on patterns like these."
            )
        return replace(self, state=state, patterns_stored=len(batch))

    def read(self, queries: Any, *, known: Any = None) -> Readout:
        """What this memory recalls for a damaged pattern, or for each of a batch.

        `known` is a mask of the dimensions that are undamaged; they are kept as they are. For a single
        query the results have no batch axis.
        """
        batch, single = self._as_patterns(queries, "queries")
        mask = None if known is None else jnp.asarray(as_mask(known, batch.shape, self.model.pattern_shape))
        out = _read(self.model, self.state, batch, mask)
        return Readout(out.patterns[0], out.trajectory[:, 0], out.energies[:, 0]) if single else out

    def energy(self, patterns: Any) -> Float[Array, "..."]:
        """The energy of each pattern, low where it is stored; for a single pattern, one number."""
        batch, single = self._as_patterns(patterns, "patterns")
        energies = _energies(self.model, self.state, batch)
        return energies[0] if single else energies

    @property
    def memory_size(self) -> int:
        """The number of floats that hold the patterns."""
        return self.model.memory_size

    def save(self, path: str | Path) -> None:
        """Save the written layers alone, tied to their model by its hash."""
        about = {"model": self.name, "model_hash": model_hash(self.model), "patterns": str(self.patterns_stored)}
        if self.source is not None:
            about["source"] = self.source
        save_tensors(Path(path), named_arrays(self.state), format=FORMAT, **about)

    @classmethod
    def load(cls, path: str | Path, model: "Memory | EBMM | str | Path | None" = None) -> "Memory":
        """A saved memory with its model: the one given, or the one it was written with, if still in its place."""
        path = Path(path)
        tensors, about = load_tensors(path, format=FORMAT)
        if model is None:
            model = cls._from_source(path, about)
        if isinstance(model, str | Path):
            model = cls.from_pretrained(model)
        memory = model if isinstance(model, Memory) else cls(model)
        own, found = about.get("model_hash", ""), model_hash(memory.model)
        if own != found:
            raise ValueError(
                f"{path} was written with model '{about.get('model')}' (hash {own[:12]}); "
                f"got '{memory.name}' (hash {found[:12]}). Load it with the model it was written with."
            )
        state = fill(memory.model.initial_state, tensors, path)
        stored = about.get("patterns", "")
        if not stored.isdecimal():
            raise ValueError(f"{path} says that it holds '{stored}' patterns; expected a number.")
        return replace(memory, state=state, patterns_stored=int(stored))

    @classmethod
    def _from_source(cls, path: Path, about: dict[str, str]) -> "Memory":
        missing = f"{path} needs its model '{about.get('model')}'; pass it: Memory.load(path, model)."
        if "source" not in about:
            raise ValueError(missing)
        try:
            return cls.from_pretrained(about["source"])
        except FileNotFoundError:
            raise FileNotFoundError(f"{missing} It was once in {about['source']}.") from None
        except ValueError as error:
            raise ValueError(f"{missing} ({error})") from None

    def _as_patterns(self, given: Any, what: str) -> tuple[Array, bool]:
        dtype = jax.tree.leaves(self.state)[0].dtype
        batch, single = as_patterns(given, self.model.pattern_shape, self.model.domain, dtype, what=what)
        return jnp.asarray(batch), single

    def __repr__(self) -> str:
        low_high = self.model.domain
        values = "real values" if low_high is None else f"values in [{low_high[0]:g}, {low_high[1]:g}]"
        stored = f"{self.patterns_stored} patterns" if self.patterns_stored else "nothing yet"
        return (
            f"Memory(model='{self.name}', stored={stored}, pattern_shape={self.model.pattern_shape}, {values}, "
            f"memory_size={self.memory_size:,} floats)"
        )
