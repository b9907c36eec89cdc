"""Meta-learned models on disk: a folder with `config.json` (what it is) and `model.safetensors` (its arrays)."""

import inspect
import json
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
    save_tensors,
    write_whole,
)

FORMAT = "ebmm-model"
NETWORKS = {
    network.__name__: network
    for network in (energies.GatedRNN, energies.ResNetConv, energies.ResNetFC, energies.ResNetLowLevel)
}


def describe(model: EBMM) -> dict[str, Any]:
    """What a model is, apart from its arrays. A network of the paper's is described so that it can be built again."""
    network = type(model.energy).__name__
    known = NETWORKS.get(network) is type(model.energy)
    names = [name for name in inspect.signature(type(model.energy).__init__).parameters if name not in ("self", "key")]
    return {
        "network": network if known else None,
        "settings": {name: getattr(model.energy, name) for name in names} if known else None,
        "pattern_shape": model.pattern_shape,
        "domain": model.domain,
        "write_steps": model.write_rates.raw.shape[0],
        "read_steps": model.read_rates.rates.logits.shape[0] + 1,
    }


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
    folder.mkdir(exist_ok=True)
    save_tensors(folder / "model.safetensors", named_arrays(model), format=FORMAT)
    write_whole(folder / "config.json", (json.dumps(config, indent=2) + "\n").encode())


def load_model(folder: Path, *, energy: Energy | None = None, where: Where = own_layers) -> tuple[EBMM, str]:
    """The model in a folder, and its name.

    For an energy of your own, give one of the same shapes; its values are replaced.
    """
    config = _load_config(folder)
    energy = _network(config, folder) if energy is None else energy
    try:
        layers, write_steps, read_steps = len(named_layers(energy, where)), config["write_steps"], config["read_steps"]
        blank = {
            "energy": energy,
            "write_rates": WriteRates.starting_at(np.ones((layers, len(TERMS))), steps=write_steps),
            "read_rates": ReadRates.starting_at(rate=1.0, momentum=1.0, decay=0.5, steps=read_steps),
        }
        low_high = config["domain"]
        domain = None if low_high is None else (float(low_high[0]), float(low_high[1]))
        shape = tuple(config["pattern_shape"])
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{folder / 'config.json'} is damaged: {error!r}.") from None
    path = folder / "model.safetensors"
    arrays = fill(blank, load_tensors(path, format=FORMAT)[0], path)
    model = EBMM(**arrays, pattern_shape=shape, where=where, domain=domain)
    if model_hash(model) != config.get("hash"):
        raise ValueError(
            f"{path} and config.json in {folder} belong to different models; expected those saved together."
        )
    return model, str(config["name"])


def _load_config(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} does not exist; expected a folder with config.json and model.safetensors.")
    path = folder / "config.json"
    must_exist(path, "the description of a saved model")
    try:
        config = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}); expected the description of a saved model.") from None
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise ValueError(f"{path} does not describe a model; expected a JSON object of format {FORMAT}.")
    check_version(path, config.get("version"))
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
