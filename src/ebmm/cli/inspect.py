"""`ebmm inspect`: what a file or a folder is, and what is in it."""

import json
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from ..bundled import bundled_models, model_folder
from ..files import load_tensors, safetensors_format
from ..memory import FORMAT as MEMORY
from ..memory import Memory, energies_in
from ..pretrained import FORMAT as MODEL
from ..training.checkpoint import FORMAT as CHECKPOINT
from ..training.run import metrics_of
from .load import expected_error, fullness
from .output import told_plainly

Facts = dict[str, str]


def inspect(what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]) -> None:
    """Say what a file or a folder is: a memory, a model, a checkpoint or a run; its size, its model, how full it is.

    Args:
        what: A file, a folder, or the name of a bundled model. It is checked, and nothing is written.
    """
    with told_plainly():
        facts = facts_of(what)
    table = Table(show_header=False, title=what)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, fact in facts.items():
        table.add_row(name, fact)
    Console().print(table)


def facts_of(what: str) -> Facts:
    path = Path(what)
    if path.is_file():
        return facts_of_file(path)
    folder, source = model_folder(what)
    if not folder.exists():
        raise FileNotFoundError(f"{what} does not exist; expected a memory, a model, a checkpoint or a run.")
    config = config_in(folder)
    if config.get("format") == MODEL:
        return facts_of_model(folder, source)
    if "experiment" in config:
        return facts_of_run(folder, config)
    raise ValueError(f"{what} is no model and no run: it has no config.json that tells of one.")


def config_in(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        config = json.loads(path.read_bytes()) if path.is_file() else {}
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}).") from None
    return config if isinstance(config, dict) else {}


def facts_of_file(path: Path) -> Facts:
    found = safetensors_format(path)
    if found == MEMORY:
        return facts_of_memory(path)
    if found == CHECKPOINT:
        return facts_of_checkpoint(path)
    if found == MODEL:
        raise ValueError(f"{path} holds the arrays of a model; inspect its folder: ebmm inspect {path.parent}.")
    raise ValueError(f"{path} has format {found or 'unknown'}; expected {MEMORY}, {CHECKPOINT} or {MODEL}.")


def facts_of_memory(path: Path) -> Facts:
    """Also where its model cannot be found: a memory says of itself what it needs."""
    tensors, about = load_tensors(path, format=MEMORY)
    floats = sum(array.size for array in tensors.values())
    facts = {
        "what": "memory",
        "size": f"{floats:,} floats; {path.stat().st_size:,} bytes on disk",
        "model": f"{about.get('model')} (hash {about.get('model_hash', '')[:12]})",
        "model from": whereabouts(about.get("source")),
    }
    stored = about.get("patterns", "")
    try:
        trained = Memory.load(path).trained
    except (ValueError, OSError) as error:
        facts["problem"], trained = str(error), None
    if stored.isdecimal() and int(stored) > 0:
        facts["holds"] = fullness(trained, int(stored))
        facts["bits a pattern"] = f"{32 * floats / int(stored):,.0f}"
        if "rehearsed" in about:
            facts["rehearsed"] = about["rehearsed"]
        error = expected_error(trained, int(stored))
        if error is not None:
            without = ", had it not rehearsed" if "rehearsed" in about else ""
            facts["expected error"] = f"{error} of a pattern, under the damage of its training{without}"
    else:
        facts["holds"] = "nothing yet"
    energies = energies_in(about, path)
    if energies:
        facts["energies"] = f"{min(energies):.2f} to {max(energies):.2f} when written"
    return facts


def whereabouts(source: str | None) -> str:
    if source is None:
        return "not known; pass the model when loading"
    if source in bundled_models():
        return f"{source}, bundled"
    return source if Path(source).is_dir() else f"{source}, which is no longer there"


def facts_of_model(folder: Path, source: str) -> Facts:
    """A model made from someone's own energy cannot be built here, but its description can be read."""
    config = config_in(folder)
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    facts = {
        "what": "bundled model" if source in bundled_models() else "model",
        "name": str(config.get("name")),
        "size": f"{size:,} bytes on disk",
        "network": str(config.get("system") or config.get("network") or f"your own, {config.get('energy')}"),
        "patterns": f"shape {tuple(config.get('pattern_shape', ()))}, values in {config.get('domain')}",
        "hash": str(config.get("hash", ""))[:12],
    }
    if config.get("network") or config.get("system"):
        memory = Memory.from_pretrained(folder)
        facts["memory"] = f"{memory.memory_size:,} floats, {4 * memory.memory_size:,} bytes"
    return facts | facts_of_training(config.get("trained"))


def facts_of_training(trained: Any) -> Facts:
    if not isinstance(trained, dict):
        return {"trained": "not told"}
    facts = {}
    if "patterns" in trained:
        on = f" on {trained['on']}" if "on" in trained else ""
        damage = f", damaged by {trained['damage']}" if "damage" in trained else ""
        updates = f", {trained['updates']:,} updates" if "updates" in trained else ""
        facts["trained"] = f"for {trained['patterns']} patterns{on}{damage}{updates}"
    if "error" in trained:
        error = trained["error"]
        over = f", over {error['batches']:,} test batches" if "batches" in error else ""
        facts["error"] = (
            f"{error['mean']:.1f} wrong values (5 to 95 %: {error['low']:.1f} to {error['high']:.1f}){over}"
        )
    if "error_by_patterns" in trained:
        pairs = trained["error_by_patterns"].items()
        facts["error by patterns"] = ", ".join(f"{count}: {error:.1f}" for count, error in pairs)
    return facts


def facts_of_checkpoint(path: Path) -> Facts:
    tensors, about = load_tensors(path, format=CHECKPOINT)
    try:
        progress = json.loads(about["progress"])
        update, stage = int(progress["update"]), int(progress["stage"])
    except (KeyError, ValueError, TypeError):
        raise ValueError(f"{path} is damaged: it does not tell how far its run was.") from None
    run = path.absolute().parents[1]
    experiment = config_in(run).get("experiment", {}).get("name") if path.parent.name == "checkpoints" else None
    return {
        "what": "checkpoint",
        "size": f"{sum(array.size for array in tensors.values()):,} floats; {path.stat().st_size:,} bytes on disk",
        "run": f"{experiment or 'not known'} (fingerprint {about.get('run', '')[:12]})",
        "reached": f"update {update:,}, stage {stage + 1}",
    }


def facts_of_run(folder: Path, config: dict[str, Any]) -> Facts:
    try:
        name, planned = config["experiment"]["name"], config["experiment"]["settings"]["updates"]
        facts = {"what": "run", "experiment": f"{name}, seed {config['seed']}", "device": str(config["device"])}
    except (KeyError, TypeError):
        raise ValueError(f"{folder / 'config.json'} is damaged; expected the description of a run.") from None
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    facts["size"] = f"{size:,} bytes on disk"
    lines = metrics_of(folder) if (folder / "metrics.jsonl").exists() else []
    if lines:
        last, tested = lines[-1], [line for line in lines if line.get("held_out") is not None]
        facts["reached"] = f"update {last['update']:,} of {planned:,}, with {last['patterns']} patterns"
        held_out = f", held out {tested[-1]['held_out']:.2f}" if tested else ""
        facts["error"] = f"{last['error']:.2f}{held_out}"
    else:
        facts["reached"] = f"no update yet of {planned:,}"
    if (folder / "model" / "config.json").exists():
        facts["model"] = f"{folder / 'model'}; ebmm inspect {folder / 'model'}"
    return facts
