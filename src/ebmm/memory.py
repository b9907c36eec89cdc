"""The object a user holds: a memory model and what has been written to it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from .bundled import bundled_models, model_folder
from .careful import carefully
from .checks import as_mask, as_patterns
from .core.energy import Energy, Where
from .core.model import EBMM, own_layers
from .evaluation.errors import Watch
from .fewer import for_fewer
from .files import fill, load_tensors, named_arrays, save_tensors
from .interface import AbstractMemoryModel, Readout
from .longer import in_steps
from .pretrained import load_model, model_hash, save_model, trained_of
from .rehearsal import Rehearsal, Rehearsed, with_rehearsal, write_watched

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

    model: AbstractMemoryModel
    name: str = ""
    state: PyTree = None
    patterns_stored: int = 0
    source: str | None = None
    """Where the model came from, so that a saved memory can find it again."""
    trained: Mapping[str, Any] | None = None
    """What is known of the model's training, such as `patterns`, the number that it learned to store at once."""
    stored_energies: tuple[float, ...] | None = None
    """The energies of the stored patterns, where someone noted them: what a pattern is judged by that may be stored."""
    rehearsed: str | None = None
    """How it practised when it was written, in words, if it did."""

    def __post_init__(self):
        if not isinstance(self.model, AbstractMemoryModel) or not isinstance(self.name, str):
            given = f"{type(self.model).__name__} and name {self.name!r}"
            raise ValueError(f"Memory: got model {given}; expected a memory model, as `new_model` makes, and text.")
        if not self.name:
            kind = self.model.energy if isinstance(self.model, EBMM) else self.model
            object.__setattr__(self, "name", type(kind).__name__)
        if self.state is None:
            object.__setattr__(self, "state", self.model.initial_state)

    @classmethod
    def from_pretrained(cls, path: str | Path, *, energy: Energy | None = None, where: Where = own_layers) -> "Memory":
        """An empty memory with a bundled model, by its name, or with the model in a folder.

        For one made from your own energy, pass that too.
        """
        return cls._from_folder(*model_folder(path), energy=energy, where=where)

    @classmethod
    def _from_folder(
        cls, folder: Path, source: str, *, energy: Energy | None = None, where: Where = own_layers
    ) -> "Memory":
        model, name = load_model(folder, energy=energy, where=where)
        return cls(model, name, source=source, trained=trained_of(folder))

    def save_pretrained(self, path: str | Path, *, half: bool = False) -> None:
        """Save the meta-learned model, without what is stored in it, as a folder for `from_pretrained`.

        With `half` its weights are rounded to half precision, which halves the file. That makes it another model:
        measure it again, and do not expect it to read memories that this one wrote.
        """
        save_model(self.model, Path(path), name=self.name, trained=self.trained, half=half)

    def write(
        self,
        patterns: Any,
        *,
        as_learned: bool = False,
        careful: bool | None = None,
        rehearsal: Rehearsal | None = None,
        watch: Watch = iter,
    ) -> "Memory":
        """A new memory that holds these patterns: a batch, or a single one.

        Fewer patterns than the model was trained for are written with shorter steps (see `ebmm.fewer`), which recalls
        them better. `careful` reads what was written from itself and tries steps of other lengths where that fails
        (see `ebmm.careful`): for patterns unlike those of training, in up to ten times the time. If it is left out,
        another number of patterns than in training is written so. `as_learned` keeps the steps as they are. A
        `rehearsal` practises reading under the damage that is to be expected (see `ebmm.rehearsal`): fewer errors in
        the same memory, for seconds or minutes of writing, in which `watch` goes through its steps and can show how far
        it is.
        """
        batch, _ = self._as_patterns(patterns, "patterns")
        writer = with_rehearsal(self.model_for(len(batch), as_learned=as_learned, careful=careful), rehearsal)
        state = write_watched(writer, batch, watch) if isinstance(writer, Rehearsed) else _write(writer, batch)
        check_finite(state)
        rehearsed = None if rehearsal is None else str(rehearsal)
        return replace(self, state=state, patterns_stored=len(batch), stored_energies=None, rehearsed=rehearsed)

    def model_for(self, patterns: int, *, as_learned: bool = False, careful: bool | None = None) -> AbstractMemoryModel:
        """The model as it writes so many patterns: see `write`."""
        learned = (self.trained or {}).get("patterns")
        model = self.model if as_learned else for_fewer(self.model, patterns, learned)
        if careful is None:
            careful = not as_learned and learned is not None and learned != patterns
        return carefully(model) if careful else model

    def read(self, queries: Any, *, known: Any = None, steps: int | None = None) -> Readout:
        """What this memory recalls for a damaged pattern, or for each of a batch.

        `known` is a mask of the dimensions that are undamaged; they are kept as they are. `steps` reads for longer than
        was learned, which can leave fewer errors, or shorter (see `ebmm.longer`). For a single query the results have
        no batch axis.
        """
        model = in_steps(self.model, steps)
        batch, single = self._as_patterns(queries, "queries")
        mask = None if known is None else jnp.asarray(as_mask(known, batch.shape, self.model.pattern_shape))
        out = _read(model, self.state, batch, mask)
        if not single:
            return out
        return Readout(out.patterns[0], out.trajectory[:, 0], None if out.energies is None else out.energies[:, 0])

    def energy(self, patterns: Any) -> Float[Array, "..."]:
        """The energy of each pattern, low where it is stored; for a single pattern, one number."""
        batch, single = self._as_patterns(patterns, "patterns")
        energies = _energies(self.model, self.state, batch)
        if energies is None:
            raise ValueError(f"{self.name}: a {type(self.model).__name__} defines no energy; read from it instead.")
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
        if self.stored_energies is not None:
            about["energies"] = json.dumps([float(f"{energy:.6g}") for energy in self.stored_energies])
        if self.rehearsed is not None:
            about["rehearsed"] = self.rehearsed
        save_tensors(Path(path), named_arrays(self.state), format=FORMAT, **about)

    @classmethod
    def load(cls, path: str | Path, model: "Memory | AbstractMemoryModel | str | Path | None" = None) -> "Memory":
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
        return replace(
            memory,
            state=state,
            patterns_stored=int(stored),
            stored_energies=energies_in(about, path),
            rehearsed=about.get("rehearsed"),
        )

    @classmethod
    def _from_source(cls, path: Path, about: dict[str, str]) -> "Memory":
        missing = f"{path} needs its model '{about.get('model')}'; pass it: Memory.load(path, model)."
        if "source" not in about:
            raise ValueError(missing)
        try:
            source = about["source"]
            return cls._from_folder(bundled_models().get(source, Path(source)), source)
        except FileNotFoundError:
            raise FileNotFoundError(f"{missing} It was once in {about['source']}.") from None
        except ValueError as error:
            raise ValueError(f"{missing} ({error})") from None

    def _as_patterns(self, given: Any, what: str) -> tuple[Array, bool]:
        arrays = jax.tree.leaves(eqx.filter((self.state, self.model), eqx.is_inexact_array))
        dtype = arrays[0].dtype if arrays else jnp.zeros(()).dtype
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


def check_finite(state: PyTree) -> None:
    """Refuse what a write gave if it holds anything that is not finite."""
    if not all(np.isfinite(array).all() for array in jax.tree.leaves(eqx.filter(state, eqx.is_inexact_array))):
        raise ValueError(
            "Writing these patterns gave weights that are not finite: the write rates are too large for them. "
            "Meta-learn the model on patterns like these."
        )


def energies_in(about: Mapping[str, str], path: Path) -> tuple[float, ...] | None:
    """The energies that a memory file notes of its patterns, if it does."""
    if "energies" not in about:
        return None
    try:
        return tuple(float(energy) for energy in json.loads(about["energies"]))
    except (ValueError, TypeError):
        raise ValueError(f"{path} is damaged: its energies are {about['energies'][:40]!r}; expected numbers.") from None
