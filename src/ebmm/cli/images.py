"""`ebmm write` and `ebmm read`: people's own images into a memory and out of it."""

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from PIL import Image, ImageDraw
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ..data.distortions import distortion
from ..data.own_images import Ink, find_images, load_images
from ..evaluation.recognition import Verdict, looks_stored
from ..files import write_whole
from ..longer import in_steps
from ..memory import Memory
from ..rehearsal import Rehearsal
from .load import fullness, load_warning
from .output import bar, check_folder, check_new, check_place, told_plainly
from .recall import DEFAULT_MODEL

MOST = 1024  # patterns written at once: all of them are worked on together
AT_ONCE = 64  # queries read at once
SHEET = "contact-sheet.png"
DAMAGE = "block:16"  # to practise reading under
MUCH = 0.02  # of an image's values: wrong even where nothing was damaged

Given = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(name="images", metavar="IMAGE...")]


def write(
    images: Given,
    *,
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
    model: str = DEFAULT_MODEL,
    ink: Ink = "dark",
    careful: bool = True,
    rehearse: int | None = None,
    damage: str | None = None,
    force: bool = False,
) -> None:
    """Store images in a memory file. They are fitted into the model's size and, for drawings, made black and white.

    Args:
        images: Files, folders and globs, in any format that Pillow reads.
        out: Where to save the memory; a name that ends in .safetensors.
        model: Name of a bundled model, or folder of a saved one.
        ink: Whether lines are darker than what they are drawn on, or lighter.
        careful: Check what was written and try steps of other lengths if need be; the images may be unlike those of
            training.
        rehearse: Steps of practising the reading after the write, such as 320: fewer errors, for a minute of work.
        damage: To practise under, block:16 if left out: block:SIZE, block:SIZE:noise, salt-and-pepper:RATE, bits:SHARE,
            or several with +.
        force: Overwrite what is there.
    """
    console = Console()
    with told_plainly():
        check_place("--out", out, ".safetensors")
        check_new([out], force=force)
        if damage is not None and rehearse is None:
            raise ValueError(f"--damage {damage}: it is what to practise under; add --rehearse STEPS.")
        rehearsal = None if rehearse is None else Rehearsal(distortion(damage or DAMAGE), rehearse)
        memory = Memory.from_pretrained(model)
        paths, notes = find_images(images)
        if len(paths) > MOST:
            raise ValueError(
                f"got {len(paths):,} images; expected at most {MOST:,}. Spread them over several memories."
            )
        given = load_images(paths, memory.model.pattern_shape, memory.model.domain, ink=ink)
        alike = len(paths) - len(np.unique(given.patterns.reshape(len(paths), -1), axis=0))
        if alike:
            notes.append(f"{alike} of the images {'is' if alike == 1 else 'are'} the same as another once made to fit.")
        for note in (*notes, *given.notes, load_warning(memory, len(paths))):
            if note:
                console.print(note, highlight=False, soft_wrap=True)
        with nullcontext() if rehearsal else console.status("Writing; the first time, compiling takes most of it"):
            watch = bar(console, "Writing and practising")
            memory = memory.write(given.patterns, careful=careful, rehearsal=rehearsal, watch=watch)
        with console.status("Reading what is stored, undamaged"):
            back = read_back(memory, given.patterns)
            memory = replace(memory, stored_energies=back.energies)
        memory.save(out)
    console.print(f"Stored {fullness(memory.trained, len(paths))}.", highlight=False)
    if back.wrong is not None:
        console.print(held(back.wrong, math.prod(memory.model.pattern_shape), paths), highlight=False, soft_wrap=True)
    console.print(f"Memory: {out} ({out.stat().st_size:,} bytes)", soft_wrap=True, highlight=False)


def read(
    memory: Annotated[Path, tyro.conf.Positional],
    images: Given,
    *,
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
    model: str | None = None,
    ink: Ink = "dark",
    steps: int | None = None,
    force: bool = False,
) -> None:
    """Recover images from a memory file: a PNG for each, a contact sheet, and whether each looks stored.

    Args:
        memory: File that `ebmm write` or `Memory.save` wrote.
        images: Damaged images: files, folders and globs.
        out: Folder for what is recovered; made if it is not there.
        model: The model that it was written with, if it is no longer in its place.
        ink: Whether lines are darker than what they are drawn on, or lighter.
        steps: To read in, if not as many as the model has learned; more of them can leave fewer errors.
        force: Overwrite what is there.
    """
    console = Console()
    with told_plainly():
        check_folder("--out", out)
        stored = Memory.load(memory, model)
        in_steps(stored.model, steps)  # refused before any image is looked for
        if not stored.patterns_stored:
            raise ValueError(f"{memory} holds nothing yet; store images in it with ebmm write.")
        paths, notes = find_images(images)
        names = file_names(paths)
        check_spares([out / name for name in (*names, SHEET)], paths)
        check_new([out / name for name in (*names, SHEET)], force=force)
        given = load_images(paths, stored.model.pattern_shape, stored.model.domain, ink=ink)
        for note in (*notes, *given.notes):
            console.print(note, highlight=False, soft_wrap=True)
        recovered = list(readings(stored, given.patterns, names, console, steps))
        files = {out / each.name: as_png(each.after, ink=ink) for each in recovered}
        save_into(out, files | {out / SHEET: contact_sheet(recovered, ink=ink)})
    console.print(reading_table(recovered, paths))
    console.print(f"Recovered images and {SHEET}: {out}", soft_wrap=True, highlight=False)


@dataclass(frozen=True)
class Reading:
    """One image before and after, with values in [0, 1]; its energy and the verdict where there is one."""

    name: str
    before: np.ndarray
    after: np.ndarray
    energy: float | None
    verdict: Verdict | None


def readings(
    memory: Memory, queries: np.ndarray, names: Sequence[str], console: Console, steps: int | None
) -> Iterator[Reading]:
    """Read in batches of a few sizes only, each of which is compiled once."""
    assert memory.model.domain is not None
    low, high = memory.model.domain
    starts = range(0, len(queries), AT_ONCE)
    for start in track(starts, "Reading", console=console, transient=True, disable=not console.is_terminal):
        batch = queries[start : start + AT_ONCE]
        out = memory.read(padded(batch), steps=steps)
        energies = None if out.energies is None else np.asarray(out.energies[-1])
        for index, query in enumerate(batch):
            energy = None if energies is None else float(energies[index])
            known = memory.stored_energies
            verdict = None if energy is None or not known else looks_stored(energy, known)
            before, after = ((each - low) / (high - low) for each in (query, np.asarray(out.patterns[index])))
            yield Reading(names[start + index], before, after, energy, verdict)


@dataclass(frozen=True)
class Back:
    """What a memory gives back of the very patterns that were written to it."""

    energies: tuple[float, ...] | None
    """Of the patterns as they were given, if the model defines energies."""
    wrong: tuple[int, ...] | None
    """Values of each on the wrong side of the middle of the domain, if the patterns are bits."""


def read_back(memory: Memory, patterns: np.ndarray) -> Back:
    """Read what was written from itself. The first energies of a read are those of the queries."""
    assert memory.model.domain is not None
    middle = sum(memory.model.domain) / 2
    energies: list[float] = []
    wrong: list[int] = []
    for start in range(0, len(patterns), AT_ONCE):
        batch = patterns[start : start + AT_ONCE]
        out = memory.read(padded(batch))
        recalled = np.asarray(out.patterns)[: len(batch)]
        differs = ((recalled > middle) != (batch > middle)) | np.isnan(recalled)
        wrong += differs.reshape(len(batch), -1).sum(axis=1).tolist()
        if out.energies is not None:
            energies += np.asarray(out.energies[0])[: len(batch)].tolist()
    are_bits = np.isin(patterns, memory.model.domain).all()
    return Back(tuple(energies) or None, tuple(wrong) if are_bits else None)


def held(wrong: Sequence[int], size: int, paths: Sequence[Path]) -> str:
    """In words: an image that does not come back from itself will hardly do so from a damaged copy."""
    mean = f"Read back undamaged, {np.mean(wrong):.1f} of {size:,} pixels of an image are wrong."
    lost = sum(each > MUCH * size for each in wrong)
    if not lost:
        return mean
    worst = paths[int(np.argmax(wrong))]
    return (
        f"{mean} Warning: {lost} of {len(paths)} {'is' if lost == 1 else 'are'} not held well, {worst} least of all. "
        "Fewer images, or images more like those that the model was trained on, are held better."
    )


def padded(batch: np.ndarray) -> np.ndarray:
    """The batch filled up with copies of its last pattern to a power of two."""
    size = 1 << (len(batch) - 1).bit_length()
    return np.concatenate([batch, np.repeat(batch[-1:], size - len(batch), axis=0)])


def file_names(paths: Sequence[Path]) -> list[str]:
    """A name ending in .png for each, no two of them the same, whatever the case."""
    taken = {SHEET}
    names = []
    for path in paths:
        number, name = 1, f"{path.stem}.png"
        while name.lower() in taken:
            number += 1
            name = f"{path.stem}-{number}.png"
        taken.add(name.lower())
        names.append(name)
    return names


def check_spares(written: Sequence[Path], given: Sequence[Path]) -> None:
    """Refuse to overwrite what was given, whatever else may be overwritten."""
    both = {path.resolve() for path in written} & {path.resolve() for path in given}
    if both:
        raise ValueError(f"{min(both)} is one of the images to read and would be overwritten; choose another folder.")


def save_into(folder: Path, files: dict[Path, bytes]) -> None:
    is_new = not folder.exists()
    folder.mkdir(exist_ok=True)
    try:
        write_whole(files)
    except BaseException:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()
        raise


def as_image(pattern: np.ndarray, *, ink: Ink) -> Image.Image:
    """Drawings as they were given, dark ink on light paper or the reverse; colours as they are."""
    values = np.clip(pattern, 0, 1)
    if values.shape[-1] == 1:
        values = (values if ink == "light" else 1 - values)[..., 0]
    return Image.fromarray((255 * values).round().astype(np.uint8))


def as_png(pattern: np.ndarray, *, ink: Ink) -> bytes:
    png = io.BytesIO()
    as_image(pattern, ink=ink).save(png, "PNG")
    return png.getvalue()


def contact_sheet(recovered: Sequence[Reading], *, ink: Ink) -> bytes:
    """Every image before and after, enlarged, with its name, its energy and whether it looks stored."""
    height, width = recovered[0].before.shape[:2]
    scale = max(1, 96 // max(height, width))
    tall, wide, gap, lines = height * scale, width * scale, 12, 30
    cell = (2 * wide + 4 + gap, tall + lines + gap)
    columns = min(4, len(recovered))
    rows = -(-len(recovered) // columns)
    sheet = Image.new("RGB", (columns * cell[0] + gap, rows * cell[1] + gap), "white")
    draw = ImageDraw.Draw(sheet)
    for index, each in enumerate(recovered):
        x, y = gap + index % columns * cell[0], gap + index // columns * cell[1]
        for place, pattern in ((x, each.before), (x + wide + 4, each.after)):
            sheet.paste(as_image(pattern, ink=ink).resize((wide, tall), Image.Resampling.NEAREST), (place, y))
            draw.rectangle((place - 1, y - 1, place + wide, y + tall), outline="#B0B0B0")
        energy = "" if each.energy is None else f"energy {each.energy:.1f}"
        verdict = "" if each.verdict is None else f", stored: {each.verdict}"
        draw.text((x, y + tall + 2), fitting(each.name.removesuffix(".png"), 2 * wide), fill="black")
        draw.text((x, y + tall + 15), f"{energy}{verdict}", fill="black")
    png = io.BytesIO()
    sheet.save(png, "PNG")
    return png.getvalue()


def fitting(text: str, width: int) -> str:
    """The text, cut off where it would not fit into so many pixels; the sheet's font has ASCII alone."""
    letters = max(4, width // 7)
    plain = text.encode("ascii", "replace").decode()
    return plain if len(plain) <= letters else f"{plain[: letters - 2]}.."


def reading_table(recovered: Sequence[Reading], paths: Sequence[Path]) -> Table:
    table = Table("image", "recovered as", "energy", "looks stored")
    for each, path in zip(recovered, paths, strict=True):
        energy = "" if each.energy is None else f"{each.energy:.2f}"
        table.add_row(str(path), each.name, energy, each.verdict or "not known")
    return table
