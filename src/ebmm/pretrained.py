"""Meta-learned models on disk: a folder with `config.json` (what it is) and `model.safetensors` (its arrays)."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from . import energies
from .core.energy import Energy, Where, named_layers
from .core.model import EBMM, own_layers
from .core.rates import TERMS, ReadRates, WriteRates
from .files import (
    VERSION,
    check_version,
    digest,
    fill,
    load_tensors,
    must_exist,
    named_arrays,
    tensors_as_bytes,
    write_whole,
)

FORMAT = "ebmm-model"
NETWORKS = {
    network.__name__: network
    for network in (energies.GatedRNN, energies.ResNetConv, energies.ResNetFC, energies.ResNetLowLevel)
}


def describe(model: EBMM) -> dict[str, Any]:
    """What a model is, apart from its arrays; a network of the paper's in such a way that it can be built again.

    Of an energy of your own it tells the class, the layers that are written, and its fields that are neither
    arrays nor static: numbers by value, functions by name.
    """
    energy = model.energy
    network = type(energy).__name__
    known = NETWORKS.get(network) is type(energy)
    names = [name for name in inspect.signature(type(energy).__init__).parameters if name not in ("self", "key")]
    others = [leaf for leaf in jax.tree.leaves(energy) if not eqx.is_array(leaf)]
    return {
        "network": network if known else None,
        "settings": {name: getattr(energy, name) for name in names} if known else None,
        "energy": type(energy).__qualname__,
        "others": [leaf if isinstance(leaf, int | float | str) else _name(leaf) for leaf in others],
        "writable": writable_names(energy, model.where),
        "pattern_shape": model.pattern_shape,
        "domain": model.domain,
        "write_steps": model.write_rates.raw.shape[0],
        "read_steps": model.read_rates.rates.logits.shape[0] + 1,
    }


def writable_names(energy: Energy, where: Where) -> list[str]:
    """The dotted names of the arrays that writing may change, layer by layer."""
    names = list(named_arrays(energy))
    marks = jax.tree.unflatten(jax.tree.structure(eqx.filter(energy, eqx.is_array)), names)
    return jax.tree.leaves(named_layers(marks, where))


def _name(leaf: Any) -> str:
    return getattr(leaf, "__qualname__", type(leaf).__qualname__)


def model_hash(model: EBMM) -> str:
    """Tells models apart: the same for the same description and arrays, on any machine."""
    return digest(named_arrays(model), describe(model))


def save_model(model: EBMM, folder: Path, *, name: str) -> None:
    config = {"format": FORMAT, "version": VERSION, "name": name, "hash": model_hash(model), **describe(model)}
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
                folder / "model.safetensors": tensors_as_bytes(named_arrays(model), format=FORMAT),
                folder / "config.json": (json.dumps(config, indent=2) + "\n").encode(),
            }
        )
    except BaseException:
        if is_new:
            folder.rmdir()
        raise


def load_model(folder: Path, *, energy: Energy | None = None, where: Where = own_layers) -> tuple[EBMM, str]:
    """The model in a folder, and its name.

    For an energy of your own, give one of the same shapes; its values are replaced.
    """
    config = _load_config(folder)
    path = folder / "model.safetensors"
    tensors, _ = load_tensors(path, format=FORMAT)
    energy = _network(config, folder) if energy is None else energy
    shapes = jax.eval_shape(
        lambda: {
            "write_rates": WriteRates.starting_at(
                np.ones((len(named_layers(energy, where)), len(TERMS))), steps=config["write_steps"]
            ),
            "read_rates": ReadRates.starting_at(rate=1.0, momentum=1.0, decay=0.5, steps=config["read_steps"]),
        }
    )
    arrays = fill({"energy": energy, **shapes}, tensors, path)
    written = writable_names(arrays["energy"], where)
    if written != config["writable"]:
        raise ValueError(f"{folder} was saved to write {config['writable']}; this `where` names {written}.")
    model = EBMM(**arrays, pattern_shape=tuple(config["pattern_shape"]), where=where, domain=config["domain"])
    if model_hash(model) != config["hash"]:
        raise ValueError(
            f"{path}, config.json and the energy belong to different models; expected those that were saved together."
        )
    return model, config["name"]


# What each entry of config.json must be.
FIELDS: dict[str, Callable[[Any], bool]] = {
    "name": lambda v: isinstance(v, str),
    "hash": lambda v: isinstance(v, str),
    "network": lambda v: v is None or isinstance(v, str),
    "settings": lambda v: v is None or isinstance(v, dict),
    "writable": lambda v: isinstance(v, list),
    "pattern_shape": lambda v: isinstance(v, list) and all(isinstance(length, int) and length > 0 for length in v),
    "domain": lambda v: v is None or isinstance(v, list),
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
    for field, holds in FIELDS.items():
        if field not in config or not holds(config[field]):
            raise ValueError(f"{path} is damaged: {field} is {config.get(field, 'missing')!r}.")
    return config


def _network(config: dict[str, Any], folder: Path) -> Energy:
    """One of the paper's networks with shapes in place of arrays."""
    network = NETWORKS.get(config.get("network") or "")
    if network is None:
        raise ValueError(
            f"{folder} holds a model made from an energy of your own; pass it: "
            "from_pretrained(folder, energy=..., where=...)."
        )
    try:
        settings: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in config["settings"].items()
        }
        return eqx.filter_eval_shape(lambda key: network(**settings, key=key), jax.random.key(0))
    except (AttributeError, KeyError, TypeError, ValueError, AssertionError) as error:
        raise ValueError(
            f"{folder / 'config.json'}: {config['network']} cannot be built as described: {error}."
        ) from None
