"""`ebmm data`: which datasets there are, and how to get them."""

from pathlib import Path

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from ..data import DATASETS
from ..data.dataset import Dataset, data_folder
from ..data.distortions import distortion
from ..data.episodes import Episodes
from .output import check_place, save_figure, told_plainly


def list_datasets() -> None:
    """Show every dataset: what is in the data folder, its size, its licence and what to cite."""
    with told_plainly():
        console, folder = Console(), data_folder()
    console.print(f"Datasets in {folder}", soft_wrap=True)
    table = Table("name", "train", "test", "licence")
    for dataset in DATASETS.values():
        here = [whereabouts(dataset, split, folder) for split in ("train", "test")]
        table.add_row(dataset.name, *here, dataset.licence)
    table.caption = "Another folder: set EBMM_DATA. A missing dataset: ebmm data get NAME"
    console.print(table)
    for dataset in DATASETS.values():
        console.print(f"[bold]{dataset.name}[/]: {dataset.title}. {dataset.citation}", highlight=False)


def get(name: str, /, *, split: str | None = None) -> None:
    """Fetch a dataset into the data folder, check it and prepare it.

    Args:
        name: As `ebmm data list` shows it.
        split: train or test; both if left out.
    """
    console = Console()
    with told_plainly():
        dataset = named(name)
        failures: list[str] = []
        for each in dataset.sources if split is None else [split]:
            try:
                images = dataset.images(each)
            except (ValueError, OSError) as error:  # the other split may be there
                failures.append(str(error))
                continue
            classes = len(set(images.labels.tolist()))
            size = "×".join(map(str, dataset.pattern_shape))
            where = whereabouts(dataset, each, data_folder())
            console.print(f"{name} {each}: {len(images):,} images of {size} in {classes:,} classes; {where}")
        if failures:
            raise ValueError("\n".join(failures))
    console.print(f"Licence: {dataset.licence}\nPlease cite: {dataset.citation}", highlight=False)


def show(
    name: str = "omniglot-sample",
    /,
    *,
    damage: tuple[str, ...] = ("block:16", "salt-and-pepper:0.15", "bits:0.5", "block:8+salt-and-pepper:0.1"),
    split: str = "test",
    count: int = 8,
    seed: int = 0,
    picture: Path = Path("data.png"),
) -> None:
    """Draw a few images of a dataset, as they are and damaged.

    Args:
        name: As `ebmm data list` shows it.
        damage: Kinds of damage: block:SIZE, block:SIZE:noise, salt-and-pepper:RATE, bits:SHARE, or several with +.
        split: train or test.
        count: How many images.
        seed: Of the images and of the damage.
        picture: Where to save the picture.
    """
    with told_plainly():
        check_place("--picture", picture, ".png")
        kinds = [distortion(text) for text in damage]
        images = named(name).images(split)
        key = jax.random.key(seed)
        rows = {"as they are": np.asarray(images.draw(count, key=jax.random.split(key)[0]))}
        for kind in kinds:  # the same images for every kind, since the key is the same
            rows[kind.name] = np.asarray(Episodes(images, kind, count)(key).queries)
        from ..figures import damage_figure

        save_figure(damage_figure(rows), picture)
    Console().print(f"Picture: {picture}", soft_wrap=True)


def named(name: str) -> Dataset:
    if name not in DATASETS:
        raise ValueError(f"no dataset {name!r}; expected {', '.join(DATASETS)}.")
    return DATASETS[name]


def whereabouts(dataset: Dataset, split: str, folder: Path) -> str:
    """Which files of a split are there, and how large they are."""
    if split not in dataset.sources:
        return ""
    if dataset.bundled is not None:
        return "bundled"
    source = dataset.source(split, folder)
    if source is not None:
        return f"{source} ({megabytes(source.paths(folder))})"
    prepared = dataset.prepared_path(split, folder)
    if prepared is not None:
        return f"prepared ({megabytes([prepared])})"
    by_itself = any(source.can_be_downloaded for source in dataset.sources[split])
    return "missing" if by_itself else "missing; to be fetched by hand"


def megabytes(paths: list[Path]) -> str:
    return f"{sum(path.stat().st_size for path in paths) / 1e6:,.1f} MB"
