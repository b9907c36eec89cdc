"""The models that come with the package, by name."""

import difflib
from pathlib import Path

FOLDER = Path(__file__).parent / "bundled_models"


def bundled_models() -> dict[str, Path]:
    """The folder of each bundled model: `config.json`, `model.safetensors` and a model card, `README.md`."""
    return {path.parent.name: path.parent for path in sorted(FOLDER.glob("*/config.json"))}


def model_folder(given: str | Path) -> tuple[Path, str]:
    """The folder that is meant, and what a memory file calls it: a bundled model's name is the same everywhere.

    Text that names a bundled model means that one; a `Path`, or text with a slash in it, means a folder.
    """
    models, path = bundled_models(), Path(given)
    if isinstance(given, str) and given in models:
        if (path / "model.safetensors").exists():
            raise ValueError(
                f"{given!r} is both a bundled model and a folder here; write ./{given} for the folder, or move it away."
            )
        return models[given], given
    if isinstance(given, str) and path.name == given and not path.exists():
        near = difflib.get_close_matches(given, models, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise FileNotFoundError(
            f"{given} does not exist, neither as a folder nor as a bundled model. {hint}Bundled: {', '.join(models)}."
        )
    return path, str(path.resolve())
