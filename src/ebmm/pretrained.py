"""Meta-learned models on disk: a folder with `config.json` (what it is) and `model.safetensors` (its arrays)."""

import inspect
import json
from collections.abc import Callable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from . import energies
from .baselines import SYSTEMS
from .core.energy import Energy, Where, named_layers
from .core.model import EBMM, STEP_SIZES, own_layers
from .core.rates import TERMS, ReadRates, WriteRates
from .files import (
    VERSION,
    Tensors,
    check_version,
    digest,
    fill,
    load_tensors,
    must_exist,
    named_arrays,
    tensors_as_bytes,
    write_whole,
)
from .interface import AbstractMemoryModel

FORMAT = "ebmm-model"
NETWORKS = {
    network.__name__: network
    for network in (
        energies.GatedRNN,
        energies.ImageReconstruction,
        energies.MixedImageRNN,
        energies.MixedRNN,
        energies.ResNetConv,
        energies.ResNetFC,
        energies.ResNetLowLevel,
        energies.ResNetMixed,
        energies.StringReconstruction,
    )
}


def describe(model: AbstractMemoryModel) -> dict[str, Any]:
    """What a model is, apart from its arrays, in such a way that it can be built again."""
    if isinstance(model, EBMM):
        return _describe_energy(model)
    if SYSTEMS.get(type(model).__name__) is not type(model):
        raise ValueError(
            f"{type(model).__name__} is not among the known systems; add it: "
            f"ebmm.baselines.SYSTEMS['{type(model).__name__}'] = {type(model).__name__}."
        )
    shape_and_domain = {"pattern_shape": model.pattern_shape, "domain": model.domain}
    return {"system": type(model).__name__, "settings": _settings(model), **shape_and_domain}


def _settings(module: Any) -> dict[str, Any]:
    """The arguments that a module was made with, which it keeps as fields of the same names."""
    names = inspect.signature(type(module).__init__).parameters
    return {name: getattr(module, name) for name in names if name not in ("self", "key")}


def _describe_energy(model: EBMM) -> dict[str, Any]:
    """Of an energy of your own it tells the class, the layers that are written, and its fields that are neither
    arrays nor static: numbers by value, functions by name.
    """
    energy = model.energy
    network = type(energy).__name__
    known = NETWORKS.get(network) is type(energy)
    others = [leaf for leaf in jax.tree.leaves(energy) if not eqx.is_array(leaf)]
    return {
        "network": network if known else None,
        "settings": _settings(energy) if known else None,
        "energy": type(energy).__qualname__,
        "others": [leaf if isinstance(leaf, int | float | str) else _name(leaf) for leaf in others],
        "writable": writable_names(energy, model.where),
        "pattern_shape": model.pattern_shape,
        "domain": model.domain,
        "write_steps": model.write_rates.raw.shape[0],
        "read_steps": model.read_rates.rates.logits.shape[0] + 1,
        # Said only where it is so: most have the term, and the hash of those from before it could be left out stays.
        **({} if model.gradient_term else {"gradient_term": False}),
    }


def writable_names(energy: Energy, where: Where) -> list[str]:
    """The dotted names of the arrays that writing may change, layer by layer."""
    return [name for names in _names_by_layer(energy, where) for name in names]


def layer_names(energy: Energy, where: Where) -> list[str]:
    """The dotted name of each layer that writing may change: what the names of its arrays have in common."""

    def common(names: list[str]) -> str:
        parts = zip(*(name.split(".") for name in names), strict=False)
        return ".".join(same[0] for same in takewhile(lambda part: len(set(part)) == 1, parts))

    return [common(names) for names in _names_by_layer(energy, where)]


def _names_by_layer(energy: Energy, where: Where) -> list[list[str]]:
    names = list(named_arrays(energy))
    marks = jax.tree.unflatten(jax.tree.structure(eqx.filter(energy, eqx.is_array)), names)
    return [jax.tree.leaves(layer) for layer in named_layers(marks, where)]


def _name(leaf: Any) -> str:
    return getattr(leaf, "__qualname__", type(leaf).__qualname__)


def model_hash(model: AbstractMemoryModel) -> str:
    """Tells models apart: the same for the same description and arrays, on any machine."""
    return digest(named_arrays(model), describe(model))


def rounded(model: AbstractMemoryModel) -> AbstractMemoryModel:
    """The same model with its weights, not its biases and step sizes, rounded to half precision: half the file."""
    arrays = named_arrays(model)
    with np.errstate(over="ignore"):
        halves = {name: array.astype(np.float16) for name, array in arrays.items() if _is_weight(name, array)}
    too_large = [name for name, half in halves.items() if not np.isfinite(half).all()]
    if too_large:
        raise ValueError(f"{too_large[0]} holds numbers beyond 65,504; expected weights that half precision can hold.")
    return fill(model, {**arrays, **halves}, Path(type(model).__name__))


def _is_weight(name: str, array: np.ndarray) -> bool:
    return array.dtype == np.float32 and array.ndim > 1 and not name.startswith(STEP_SIZES)


def save_model(
    model: AbstractMemoryModel,
    folder: Path,
    *,
    name: str,
    trained: Mapping[str, Any] | None = None,
    half: bool = False,
) -> None:
    """`trained` is what is known of its training: `patterns`, the number in an episode, and whatever else is of use.

    It is told, and is no part of the model's hash. With `half` it is the `rounded` model that is saved.
    """
    model = rounded(model) if half else model
    arrays = named_arrays(model)
    if half:  # without loss: they are rounded
        arrays = {name: a.astype(np.float16) if _is_weight(name, a) else a for name, a in arrays.items()}
    config = {"format": FORMAT, "version": VERSION, "name": name, "hash": model_hash(model), **describe(model)}
    if trained is not None:
        config["trained"] = dict(trained)
    if not folder.parent.is_dir():
        raise FileNotFoundError(
            f"The folder {folder.parent} does not exist, so {folder.name} was not saved; create it first."
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; expected a folder for the model.")
    is_new = not folder.exists()
    folder.mkdir(exist_ok=True)
    try:
        write_whole(
            {
                folder / "model.safetensors": tensors_as_bytes(arrays, format=FORMAT),
                folder / "config.json": (json.dumps(config, indent=2) + "\n").encode(),
            }
        )
    except BaseException:
        if is_new:
            folder.rmdir()
        raise


def load_model(
    folder: Path, *, energy: Energy | None = None, where: Where = own_layers
) -> tuple[AbstractMemoryModel, str]:
    """The model in a folder, and its name.

    For an energy of your own, give one of the same shapes; its values are replaced.
    """
    config = _load_config(folder)
    path = folder / "model.safetensors"
    tensors, _ = load_tensors(path, format=FORMAT)
    if "system" in config:
        model = fill(_system(config, folder), tensors, path)
    else:
        model = _load_energy(config, folder, tensors, energy, where)
    if model_hash(model) != config["hash"]:
        raise ValueError(
            f"{path}, config.json and the energy belong to different models; expected those that were saved together."
        )
    return model, config["name"]


def trained_of(folder: Path) -> dict[str, Any] | None:
    """What the model in a folder says of its training, if anything."""
    return _load_config(folder).get("trained")


def _load_energy(
    config: dict[str, Any], folder: Path, tensors: Tensors, energy: Energy | None, where: Where
) -> AbstractMemoryModel:
    energy = _network(config, folder) if energy is None else energy
    shapes = jax.eval_shape(
        lambda: {
            "write_rates": WriteRates.starting_at(
                np.ones((len(named_layers(energy, where)), len(TERMS))), steps=config["write_steps"]
            ),
            "read_rates": ReadRates.starting_at(rate=1.0, momentum=1.0, decay=0.5, steps=config["read_steps"]),
        }
    )
    arrays = fill({"energy": energy, **shapes}, tensors, folder / "model.safetensors")
    written = writable_names(arrays["energy"], where)
    if written != config["writable"]:
        raise ValueError(f"{folder} was saved to write {config['writable']}; this `where` names {written}.")
    shape, gradient_term = tuple(config["pattern_shape"]), config.get("gradient_term", True)
    return EBMM(**arrays, pattern_shape=shape, where=where, domain=config["domain"], gradient_term=gradient_term)


# What each entry of config.json must be.
FIELDS: dict[str, Callable[[Any], bool]] = {
    "name": lambda v: isinstance(v, str),
    "hash": lambda v: isinstance(v, str),
    "settings": lambda v: v is None or isinstance(v, dict),
    "pattern_shape": lambda v: isinstance(v, list) and all(isinstance(length, int) and length > 0 for length in v),
    "domain": lambda v: v is None or isinstance(v, list),
}
FIELDS_OF_ENERGIES: dict[str, Callable[[Any], bool]] = {
    "network": lambda v: v is None or isinstance(v, str),
    "writable": lambda v: isinstance(v, list),
    "write_steps": lambda v: isinstance(v, int) and 0 < v < 10_000,
    "read_steps": lambda v: isinstance(v, int) and 0 < v < 10_000,
}


def _load_config(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        is_what = "is a file" if folder.exists() else "does not exist"
        raise FileNotFoundError(f"{folder} {is_what}; expected a folder with config.json and model.safetensors.")
    path = folder / "config.json"
    must_exist(path, "the description of a saved model")
    try:
        config = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}); expected the description of a saved model.") from None
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise ValueError(f"{path} does not describe a model; expected a JSON object of format {FORMAT}.")
    check_version(path, config.get("version"))
    fields = FIELDS if "system" in config else FIELDS | FIELDS_OF_ENERGIES
    for field, holds in fields.items():
        if field not in config or not holds(config[field]):
            raise ValueError(f"{path} is damaged: {field} is {config.get(field, 'missing')!r}.")
    if not isinstance(config.get("gradient_term", True), bool):
        raise ValueError(f"{path} is damaged: gradient_term is {config['gradient_term']!r}.")
    if not is_training(config.get("trained")):
        raise ValueError(f"{path} is damaged: trained is {config['trained']!r}.")
    return config


def is_training(given: Any) -> bool:
    """Whether this can be what is known of a model's training: nothing, or an object whose numbers are numbers."""
    if given is None:
        return True
    if not isinstance(given, dict) or not isinstance(given.get("patterns", 1), int):
        return False
    error, by_patterns = given.get("error", {}), given.get("error_by_patterns", {})
    if not isinstance(error, dict) or not isinstance(by_patterns, dict):
        return False
    numbers = [error.get(name, 0.0) for name in ("mean", "low", "high")] + list(by_patterns.values())
    return all(name.isdecimal() for name in by_patterns) and all(isinstance(n, int | float) for n in numbers)


def _network(config: dict[str, Any], folder: Path) -> Energy:
    """One of the paper's networks with shapes in place of arrays."""
    network = NETWORKS.get(config.get("network") or "")
    if network is None:
        raise ValueError(
            f"{folder} holds a model made from an energy of your own; pass it: "
            "from_pretrained(folder, energy=..., where=...)."
        )
    return _built(network, config, folder)


def _system(config: dict[str, Any], folder: Path) -> Any:
    """One of the other systems with shapes in place of arrays."""
    system = SYSTEMS.get(config["system"])
    if system is None:
        raise ValueError(
            f"{folder} holds a {config['system']}, which is none of {', '.join(SYSTEMS)}; add the class: "
            f"ebmm.baselines.SYSTEMS['{config['system']}'] = ..."
        )
    return _built(system, config, folder)


def _built(kind: Any, config: dict[str, Any], folder: Path) -> Any:
    """A module of this kind with the settings that were saved, and shapes in place of arrays."""
    try:
        settings: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in config["settings"].items()
        }
        if "key" not in inspect.signature(kind.__init__).parameters:
            return kind(**settings)
        return eqx.filter_eval_shape(lambda key: kind(**settings, key=key), jax.random.key(0))
    except (AttributeError, KeyError, TypeError, ValueError, AssertionError) as error:
        raise ValueError(f"{folder / 'config.json'}: {kind.__name__} cannot be built as described: {error}.") from None
