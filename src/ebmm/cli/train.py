"""`ebmm train` and `ebmm list`."""

import difflib
import math
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import jax
import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..baselines import SYSTEMS
from ..bundled import model_folder
from ..experiments import EXPERIMENTS, Experiment
from ..files import as_json, write_whole
from ..provenance import provenance
from ..training.parallel import agreed, is_writer, join_cluster
from ..training.progress import Diverged
from ..training.run import Run, metrics_of
from ..training.settings import Optimizer, Precision, Stage
from ..training.tracking import Board, check_tensorboard
from ..training.trainer import Point
from .compiled import traced_folder
from .output import check_place, save_figure, told_plainly


def list_experiments() -> None:
    """Show every experiment: what is trained, how large it is, and how long it takes."""
    table = Table("name", "what", title="Experiments: ebmm train NAME --out DIR")
    table.columns[0].no_wrap = True
    for family in families(list(EXPERIMENTS.values())):
        first, updates = family[0], sorted(experiment.settings.updates for experiment in family)
        count = f"{updates[0]:,}" if updates[0] == updates[-1] else f"{updates[0]:,} to {updates[-1]:,}"
        name, about = first.name, first.about
        if len(family) > 1:
            numbers = [NUMBER.findall(experiment.name)[0] for experiment in family]
            name = NUMBER.sub(f"{{{','.join(numbers)}}}", name)
            about = about.replace(numbers[0], f"{numbers[0]} to {numbers[-1]}", 1)
        table.add_row(name, f"{about}\n[dim]{count} updates; {first.expected}[/dim]")
    Console().print(table)


NUMBER = re.compile(r"\d+")


def families(experiments: list[Experiment]) -> list[list[Experiment]]:
    """Experiments that differ by the one number in their names share a row of the list."""
    found: dict[tuple[str, str, str], list[Experiment]] = {}
    for experiment in experiments:
        numbers = NUMBER.findall(experiment.name)
        name = NUMBER.sub("N", experiment.name) if len(numbers) == 1 else experiment.name
        about = experiment.about.replace(numbers[0], "N", 1) if numbers else experiment.about
        found.setdefault((name, about, experiment.expected), []).append(experiment)
    return list(found.values())


@dataclass(frozen=True)
class Learning:
    """How to learn, where it is not to be as the experiment has it."""

    optimizer: Optimizer | None = None
    """In place of the experiment's own."""
    learning_rate: float | None = None
    """In place of the experiment's own."""
    weight_decay: float | None = None
    """Of what multiplies an input, times the learning rate with each update, in place of the experiment's own."""
    decay: float | None = None
    """Over this last share of the run the learning rate falls to zero, in place of the experiment's own; 1 is all."""
    precision: Precision | None = None
    """Of the energy's own arithmetic, in place of the experiment's own."""
    group: int | None = None
    """So many episodes share a gradient, in place of the experiment's own number."""
    copies: int | None = None
    """So many damaged copies of each pattern are read, in place of the experiment's own number."""
    last_steps: int | None = None
    """Only the last so many read steps count in the loss, in place of the experiment's own number."""
    unroll: bool | None = None
    """Compile a copy of the code for each step of writing and reading, in place of a loop: faster on a GPU."""

    @property
    def given(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


AS_IT_IS = Learning()


def train(
    name: Annotated[str, tyro.conf.Positional],
    *,
    out: Path,
    resume: bool = False,
    minutes: float | None = None,
    seed: int = 0,
    times: int = 1,
    updates: int | None = None,
    within: float | None = None,
    start: str | None = None,
    fresh: bool = False,
    from_patterns: int | None = None,
    stages: tuple[str, ...] = (),
    write_steps: int | None = None,
    read_steps: int | None = None,
    held_out: int | None = None,
    tensorboard: bool = False,
    learn: Annotated[Learning, tyro.conf.arg(name="")] = AS_IT_IS,
) -> None:
    """Train an experiment into a folder: config, metrics, checkpoints and the model.

    Args:
        name: As `ebmm list` shows it.
        out: Folder of the run.
        resume: Go on with the run that is in the folder.
        minutes: Stop after so many minutes; it can be resumed.
        seed: Of the network, of the batches and of the damage.
        times: So many times the episodes in every update, for several devices.
        updates: So many updates in all, if not as many as the experiment has.
        within: As many updates as so many minutes of training allow, with the learning rate planned by the clock.
        start: A model to start from, in place of a fresh one: a bundled model's name, or the folder of a saved one.
        fresh: Start from a fresh model even if the experiment has a bundled one to start from.
        from_patterns: Leave out the stages with fewer patterns; for a model that has them behind it.
        stages: In place of the experiment's own, as PATTERNSxEPISODES:UPDATES, such as 8x16:4000 64x8:20000.
        write_steps: To learn, in place of the experiment's own number; each of a model to start from is divided evenly.
        read_steps: To learn, in place of the experiment's own number; a model to start from is read for longer.
        held_out: Test batches to watch at every snapshot, in place of the experiment's own number; 0 saves their time.
        tensorboard: Write the metrics for TensorBoard as well.
        learn: How to learn, where it is not to be as the experiment has it.
    """
    with told_plainly():
        if minutes is not None and not minutes >= 0:
            raise ValueError(f"--minutes {minutes}: expected a number of at least 0.")
        if tensorboard:
            check_tensorboard()
        join_cluster()
        experiment = stepping(named(name), write_steps, read_steps)
        experiment = lasting(times_as_many(staged(experiment, stages), times), updates, within)
        experiment = watching(learning(beginning_at(experiment, from_patterns), learn), held_out)
        if fresh and start is not None:
            raise ValueError("got --fresh and --start; expected one of them.")
        experiment = replace(experiment, start=None if fresh else experiment.start)
        started = None if start is None else model_folder(start)[0]
        run = Run.open(experiment, out, seed=seed, resume=resume, start=started, traced=traced_folder())
        shows = tensorboard and is_writer()
        board = Board(out / "tensorboard", from_update=run.trainer.progress.update) if shows else None
    console = Console(quiet=not is_writer())
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    stopped = False
    try:
        with stop_signals() as signals:
            for point in shown(console, run):
                if board is not None:
                    board.show(point)
                stopped = agreed(bool(signals) or (deadline is not None and time.monotonic() > deadline))
                if stopped:
                    break
        run.save()
    except Diverged as error:
        raise SystemExit(f"ebmm: {error}") from None
    finally:
        if board is not None:
            board.close()
    progress = run.trainer.progress
    if stopped and not run.trainer.is_done:
        given = {"times": None if times == 1 else times, "updates": updates, "within": within, "start": start}
        given |= {
            "from-patterns": from_patterns,
            "stages": " ".join(stages) or None,
            "write-steps": write_steps,
            "read-steps": read_steps,
            **{name.replace("_", "-"): value for name, value in learn.given.items()},
            "held-out": held_out,
        }
        more = "".join(f" --{option} {value}" for option, value in given.items() if value is not None)
        more += " --fresh" if fresh else ""
        command = f"ebmm train {name} --out {out} --seed {seed}{more} --resume"
        console.print(f"Stopped after update {progress.update:,} and saved. Go on with: {command}", soft_wrap=True)
    else:
        compiling = f"and {progress.compile_seconds:.0f} s of compiling"
        console.print(f"Done: {progress.update:,} updates in {progress.seconds / 60:.1f} minutes {compiling}.")
        if run.experiment.beside and is_writer():
            show_comparison(console, run)
    patterns = run.experiment.settings.stages[-1].patterns
    measure = f"ebmm evaluate {out / 'model'} --on {run.experiment.on} --patterns {patterns}"
    console.print(f"Model: {out / 'model'}; measure it with: {measure}", soft_wrap=True)  # to be copied as it stands


def curve(runs: Annotated[tuple[Path, ...], tyro.conf.Positional], *, picture: Path = Path("curve.png")) -> None:
    """Draw the error of one or more runs over their updates.

    Args:
        runs: Folders of runs.
        picture: Where to save the picture.
    """
    with told_plainly():
        check_place("--picture", picture, ".png")
        if not runs:
            raise ValueError("got no run; expected the folder of at least one.")
        lines = {str(run): metrics_of(run) for run in runs}
        empty = [name for name, found in lines.items() if not found]
        if empty:
            raise ValueError(f"{empty[0]} has no metrics yet.")
        from ..figures import training_figure

        save_figure(training_figure(lines), picture)
    Console().print(f"Picture: {picture}", soft_wrap=True)


def show_comparison(console: Console, run: Run) -> None:
    """The trained model beside the systems of the same memory size, also as JSON in the run's folder."""
    batches = 200
    with console.status("Measuring the model and the Hopfield rules"):
        errors = run.comparison(batches)
    stage, bits = run.experiment.settings.stages[-1], run.experiment.bits
    table = Table("", "wrong bits", title=f"{stage.patterns} strings of {bits} bits, {batches} test batches")
    for system, error in errors.items():
        table.add_row(system, f"{error:.2f}")
    console.print(table)
    report = {"batches": batches, "wrong_bits": errors, **provenance(seed=run.seed)}
    write_whole({run.folder / "comparison.json": as_json(report)})


def staged(experiment: Experiment, stages: tuple[str, ...]) -> Experiment:
    """With these stages in place of its own."""
    found = [STAGE.fullmatch(stage) for stage in stages]
    for stage, match in zip(stages, found, strict=True):
        if match is None:
            raise ValueError(f"--stages {stage}: expected PATTERNSxEPISODES:UPDATES, such as 8x16:4000.")
    if not stages:
        return experiment
    parsed = tuple(Stage(*map(int, match.groups())) for match in found if match)
    return replace(experiment, settings=replace(experiment.settings, stages=parsed))


STAGE = re.compile(r"(\d+)x(\d+):(\d+)")


def stepping(experiment: Experiment, write_steps: int | None, read_steps: int | None) -> Experiment:
    """With so many steps to learn, where they are given."""
    steps_of = {"write_steps": write_steps, "read_steps": read_steps}
    given = {name: steps for name, steps in steps_of.items() if steps is not None}
    for name, steps in given.items():
        option = f"--{name.replace('_', '-')}"
        if steps < 1:
            raise ValueError(f"{option} {steps}: expected at least 1.")
        if experiment.network in SYSTEMS:
            raise ValueError(f"{option}: {experiment.network} is no energy, and has no such steps.")
    return replace(experiment, **given)


def times_as_many(experiment: Experiment, times: int) -> Experiment:
    if times < 1:
        raise ValueError(f"--times {times}: expected at least 1.")
    stages = tuple(replace(stage, episodes=times * stage.episodes) for stage in experiment.settings.stages)
    return replace(experiment, settings=replace(experiment.settings, stages=stages))


def lasting(experiment: Experiment, updates: int | None, within: float | None = None) -> Experiment:
    if updates is not None and within is not None:
        raise ValueError("got --updates and --within; expected one of them.")
    if updates is not None and updates < 1:
        raise ValueError(f"--updates {updates}: expected at least 1.")
    if within is not None:
        if not within > 0:
            raise ValueError(f"--within {within}: expected more than 0 minutes.")
        if jax.process_count() > 1:
            raise ValueError("--within: the clocks of several processes differ; expected --updates.")
    settings = replace(experiment.settings, minutes=within, updates=updates or experiment.settings.updates)
    return replace(experiment, settings=settings)


def beginning_at(experiment: Experiment, patterns: int | None) -> Experiment:
    """Without the stages of fewer patterns."""
    if patterns is None:
        return experiment
    settings = experiment.settings
    stages = tuple(stage for stage in settings.stages if stage.patterns >= patterns)
    if not stages:
        most = max(stage.patterns for stage in settings.stages)
        raise ValueError(f"--from-patterns {patterns}: expected at most {most}, as {experiment.name} has.")
    return replace(experiment, settings=replace(settings, stages=stages))


def learning(experiment: Experiment, learn: Learning) -> Experiment:
    """The experiment with these of its settings changed."""
    if learn.learning_rate is not None and not 0 < learn.learning_rate < math.inf:
        raise ValueError(f"--learning-rate {learn.learning_rate}: expected a positive number.")
    if learn.weight_decay is not None and not 0 <= learn.weight_decay < math.inf:
        raise ValueError(f"--weight-decay {learn.weight_decay}: expected a number of at least 0.")
    if learn.decay is not None and not 0 <= learn.decay <= 1:
        raise ValueError(f"--decay {learn.decay}: expected a share from 0 to 1.")
    if learn.group is not None and learn.group < 1:
        raise ValueError(f"--group {learn.group}: expected at least 1.")
    if learn.copies is not None and learn.copies < 1:
        raise ValueError(f"--copies {learn.copies}: expected at least 1.")
    if learn.last_steps is not None and not 1 <= learn.last_steps <= experiment.read_steps:
        raise ValueError(
            f"--last-steps {learn.last_steps}: expected 1 to {experiment.read_steps}, the read steps there are."
        )
    if experiment.network in SYSTEMS:
        if learn.precision == "float16":
            raise ValueError(f"--precision float16: {experiment.network} is no energy; expected float32 for it.")
        if learn.last_steps is not None:
            raise ValueError(f"--last-steps: {experiment.network} is no energy, and learns from all that it recalls.")
        if learn.unroll:
            raise ValueError(f"--unroll: {experiment.network} is no energy, and has no such loops.")
    return replace(experiment, settings=replace(experiment.settings, **learn.given))


def watching(experiment: Experiment, held_out: int | None) -> Experiment:
    if held_out is not None and held_out < 0:
        raise ValueError(f"--held-out {held_out}: expected at least 0.")
    return experiment if held_out is None else replace(experiment, held_out=held_out)


def named(name: str) -> Experiment:
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    near = difflib.get_close_matches(name, EXPERIMENTS, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Expected one of {', '.join(EXPERIMENTS)}."
    raise ValueError(f"no experiment {name!r}. {hint}")


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """The signals that came in meanwhile; the first Ctrl-C or SIGTERM asks, the second insists."""
    received: list[int] = []

    def ask(number: int, _: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def shown(console: Console, run: Run) -> Iterator[Point]:
    """Train behind a progress bar; what happens on the way is printed above it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    settings = run.experiment.settings
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        counted, total = ("update", settings.updates)
        if settings.minutes is not None:
            counted, total = ("seconds", round(60 * settings.minutes))
        task = bar.add_task("compiling", total=total, completed=getattr(run.trainer.progress, counted))
        began, first = time.perf_counter(), run.trainer.progress.update
        for point in run.train():
            speed = (point["update"] - first) / (time.perf_counter() - began)
            stage = f"{point['patterns']} patterns"
            text = f"{stage}  loss {point['loss']:.2f}  error {point['error']:.2f}  {speed:.1f} updates/s"
            bar.update(task, description=text, completed=int(point[counted]))
            if "event" in point:
                console.print(f"update {point['update']:,}: {point['event']}", highlight=False)
            if point.get("held_out") is not None:
                console.print(
                    f"update {point['update']:,}: loss {point['loss']:.2f}, error {point['error']:.2f}, "
                    f"held out {point['held_out']:.2f}, {point['seconds']:.0f} s",
                    highlight=False,
                )
            yield point
