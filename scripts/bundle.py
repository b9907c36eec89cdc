"""Make a trained model the one that the package ships.

    python scripts/bundle.py round runs/omniglot-conv-9k/model rounded  # half precision, half the file
    ebmm evaluate rounded --on omniglot --batches 1000 --out evaluation.json  # is it as good?
    python scripts/bundle.py ship rounded --evaluation evaluation.json

The model card beside it, `README.md`, is written by hand.
"""

import json
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional
from tyro.extras import SubcommandApp

from ebmm.bundled import FOLDER
from ebmm.files import write_whole
from ebmm.pretrained import load_model, model_hash, save_model, trained_of
from ebmm.training.run import cost_of

app = SubcommandApp()


@app.command(name="round")
def round_weights(model: Annotated[Path, Positional], out: Annotated[Path, Positional]) -> None:
    """Save a model with its weights in half precision."""
    loaded, name = load_model(model)
    save_model(loaded, out, name=name, trained=trained_of(model), half=True)
    sizes = [(folder / "model.safetensors").stat().st_size / 1e6 for folder in (model, out)]
    print(f"{sizes[0]:.1f} MB -> {sizes[1]:.1f} MB: {out}")


@app.command
def ship(
    model: Annotated[Path, Positional],
    *,
    evaluation: tuple[Path, ...],
    name: str | None = None,
    folder: Path = FOLDER,
) -> None:
    """Copy a model into the package, with what was measured of it.

    Args:
        model: Its folder.
        evaluation: What `ebmm evaluate --out` saved of this very model: first with the number of patterns that it was
            trained for, then with others.
        name: To ship it under, if not its own.
        folder: Of the bundled models.
    """
    loaded, own_name = load_model(model)
    reports = [json.loads(path.read_text()) for path in evaluation]
    for path, report in zip(evaluation, reports, strict=True):
        if report["model"]["hash"] != model_hash(loaded):
            raise SystemExit(f"{path} is an evaluation of another model than {model}; evaluate this one.")
    first = reports[0]
    trained = {
        "on": first["on"],
        "damage": first["damage"],
        "patterns": first["patterns"],
        **{cost: round(spent, 2) for cost, spent in cost_of(model).items()},
        "error": {
            "metric": first["metric"],
            **{key: round(value, 4) for key, value in first["error"].items()},
            "batches": first["batches"],
        },
        "error_by_patterns": {
            str(report["patterns"]): round(report["error"]["mean"], 4)
            for report in sorted(reports, key=lambda report: report["patterns"])
        },
    }
    place = folder / (name or own_name)
    place.mkdir(parents=True, exist_ok=True)
    config = json.loads((model / "config.json").read_text()) | {"name": place.name, "trained": trained}
    write_whole(
        {
            place / "model.safetensors": (model / "model.safetensors").read_bytes(),
            place / "config.json": (json.dumps(config, indent=2) + "\n").encode(),
        }
    )
    print(f"{place}: {first['error']['mean']:.2f} over {first['batches']} batches. Write its card, README.md.")


if __name__ == "__main__":
    app.cli()
