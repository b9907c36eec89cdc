"""`ebmm bench`: how fast this machine trains, writes and reads."""

import itertools
from pathlib import Path
from typing import Any, Literal

import jax
from rich.console import Console
from rich.table import Table

from .. import layers
from ..core.model import EBMM
from ..data import OMNIGLOT_SAMPLE
from ..data.binary import strings
from ..data.distortions import RandomBlock, ResampledBits
from ..data.episodes import Episodes
from ..data.images import AbstractPatterns
from ..energies import GatedRNN, ResNetConv
from ..experiments import EXPERIMENTS
from ..files import as_json, write_whole
from ..initial import new_model
from ..provenance import provenance
from ..training.kernels import check_profiled
from ..training.settings import Keep, Precision
from ..training.speed import (
    flops_of_an_episode,
    largest_batch,
    latency,
    matrix_product_speed,
    memory_limit,
    update_speed,
)
from .output import check_place, told_plainly

TRAINED_BY = {"rnn": "binary-64", "conv": "omniglot-conv-9k", "small": "binary-small"}
"""The experiment of each network, whose way to compile is timed."""


def bench(
    *,
    network: Literal["rnn", "conv", "small"] = "small",
    patterns: int = 64,
    episodes: tuple[int, ...] = (1,),
    group: int = 1,
    copies: int = 1,
    keep: tuple[Keep, ...] = ("products",),
    counts: tuple[int, ...] = (1, 4, 16, 64, 256, 1024),
    repeats: int = 5,
    profile: bool = False,
    largest: bool = False,
    gigaflop: float | None = None,
    lowering: Literal["patches", "mixed", "xla"] | None = None,
    triton: bool | None = None,
    precision: Precision = "float32",
    unroll: bool = False,
    out: Path | None = None,
) -> None:
    """Time meta-updates, writing and reading, beside a matrix product in the same run.

    Args:
        network: The paper's gated RNN (8,256 floats of memory) or convolutional network (9,232), or a small RNN.
        patterns: Patterns in an episode of training.
        episodes: Episodes in an update; several to compare.
        group: So many episodes share a gradient; all of them where there are fewer.
        copies: Damaged copies of each pattern that an episode reads.
        keep: What a step keeps for the way back; several to compare.
        counts: Numbers of patterns to write and to read at once; none to leave that out.
        repeats: Of each measurement; the median counts.
        profile: Tell where the time of an update goes, by kinds of kernels; on a GPU.
        largest: Find the most episodes that fit into the memory of a GPU, and run them once; needs two `episodes`.
        gigaflop: The work of an episode, where an earlier run has told it: counting takes half a minute for `conv`.
        lowering: How to convolve, in place of what is fastest on this platform.
        triton: Let XLA try Triton's matrix products; if not said, as the network's experiment does.
        precision: Of the energy's own arithmetic in an update.
        unroll: Compile a copy of the code for each step of writing and reading, in place of a loop.
        out: Where to save all of it as JSON, each measurement as soon as it is there.
    """
    console = Console()
    with told_plainly():
        check_place("--out", out, ".json")
        smallest = min((patterns, repeats, group, copies, *episodes, *counts))
        if smallest < 1 or not episodes or not keep:
            raise ValueError(f"got {smallest}; expected positive numbers of patterns, episodes, counts and repeats.")
        if gigaflop is not None and not gigaflop > 0:
            raise ValueError(f"--gigaflop {gigaflop}: expected a positive number, or none to count it.")
        if profile:
            check_profiled()
        limit = memory_limit() if largest else None
        if largest and (limit is None or len(set(episodes)) < 2):
            raise ValueError("--largest: expected a device that tells its memory, a GPU, and two or more --episodes.")
        platform = jax.default_backend()
        if lowering is not None:
            layers.FASTEST[platform] = lowering
        model, sample = subject(network, patterns, copies)
        with console.status("Timing a matrix product"):
            reached = matrix_product_speed(repeats=repeats)
        with console.status("Counting the work of an episode"):
            work = flops_of_an_episode(model, sample) if gigaflop is None else 1e9 * gigaflop
        kinds = ("updates", "largest", "latencies")
        report: dict[str, Any] = {"network": network, "matrix_product_teraflops": reached / 1e12, "finished": False}
        report |= {"lowering": layers.FASTEST.get(platform, "xla")} | {kind: [] for kind in kinds} | provenance(seed=0)

        def add(kind: str, row: dict[str, Any]) -> None:
            """Saved at once: what was measured stays, whatever becomes of the rest."""
            report[kind].append(row)
            if out is not None:
                write_whole({out: as_json(report)})

        for count, kept in itertools.product(episodes, keep):
            options: Any = {
                "episodes": count,
                "group": min(group, count),
                "keep": kept,
                "precision": precision,
                "unroll": unroll,
                "work": work,
            }
            options["triton"] = EXPERIMENTS[TRAINED_BY[network]].settings.triton if triton is None else triton
            with console.status(f"Compiling and timing an update of {count} episodes, {kept} kept"):
                row = update_speed(model, sample, **options, repeats=repeats, profile=profile)
            add("updates", row | {"share_of_matrix_product": row["teraflops"] * 1e12 / reached})
        rows = report["updates"]
        console.print(time_table(network, rows), work_table(network, rows, reached))
        for row in rows if profile else []:
            console.print(profile_table(row))
        if limit is not None:
            for kept in keep:
                try:
                    with console.status(f"Compiling and running the largest update, {kept} kept"):
                        row = largest_batch(model, sample, [row for row in rows if row["keep"] == kept], limit=limit)
                except MemoryError as error:
                    console.print(f"Largest update, {kept} kept: {error}")
                    continue
                add("largest", row)
                console.print(
                    f"Largest update, {kept} kept: {_which(row)} in {row['peak_megabytes']:,.0f} of "
                    f"{row['limit_megabytes']:,.0f} MB, {row['milliseconds'] / 1e3:.1f} s"
                )
        for count in counts:
            with console.status(f"Timing writing and reading of {count} patterns"):
                add("latencies", latency(model, drawn(sample.source, count), repeats=repeats))
        if counts:
            console.print(latency_table(report["latencies"]))
        if out is not None:
            write_whole({out: as_json(report | {"finished": True})})
            console.print(f"Saved {out}", soft_wrap=True)


def subject(network: str, patterns: int, copies: int = 1) -> tuple[EBMM, Episodes]:
    """The model to time, with fresh weights, and its episodes."""
    key = jax.random.key(0)
    if network == "conv":
        drawings = OMNIGLOT_SAMPLE.images("test")
        sample = Episodes(drawings, RandomBlock(16), patterns, copies=copies)
        return new_model(ResNetConv(key=key), drawings.draw(4, key=key)), sample
    energy = GatedRNN(key=key) if network == "rnn" else GatedRNN(bits=32, memory_width=16, hidden=64, key=key)
    source = strings(energy.bits)
    model = new_model(energy, source.draw(4, key=key), domain=source.domain)
    return model, Episodes(source, ResampledBits(0.5), patterns, reveal=True, copies=copies)


def drawn(source: AbstractPatterns, count: int) -> jax.Array:
    """So many patterns; the same ones again where the bundled drawings are not enough."""
    key, most = jax.random.key(1), 512
    parts = [source.draw(min(most, count - start), key=key) for start in range(0, count, most)]
    return jax.numpy.concatenate(parts)


def time_table(network: str, rows: list[dict[str, Any]]) -> Table:
    table = Table("patterns × episodes", "kept", title=f"Meta-updates of {network}: time")
    for column in ("ms", "ms an episode", "trace s", "compile s"):
        table.add_column(column, justify="right")
    for row in rows:
        times = (row["milliseconds"], row["milliseconds_an_episode"])
        first = (row["trace_seconds"], row["compile_seconds"])
        table.add_row(_which(row), row["keep"], *(f"{ms:.2f}" for ms in times), *(f"{s:.1f}" for s in first))
    return table


def work_table(network: str, rows: list[dict[str, Any]], reached: float) -> Table:
    table = Table("patterns × episodes", "kept", title=f"Meta-updates of {network}: memory and work")
    for column in ("peak MB", "GFLOP", "TFLOP/s", "share"):
        table.add_column(column, justify="right")
    for row in rows:
        work = (f"{row['gigaflop']:,.2f}", f"{row['teraflops']:.3f}", f"{row['share_of_matrix_product']:.1%}")
        table.add_row(_which(row), row["keep"], f"{row['peak_megabytes']:,.0f}", *work)
    table.caption = f"share: of a matrix product in the same run, {reached / 1e12:.3f} TFLOP/s"
    return table


def _which(row: dict[str, Any]) -> str:
    return f"{row['patterns']} × {row['episodes']}"


def profile_table(row: dict[str, Any]) -> Table:
    profile = row["profile"]
    title = f"An update of {_which(row)}, {row['keep']} kept"
    table = Table("what kernels do", "kernels", "ms", "share", title=title)
    for kind, found in profile["kinds"].items():
        share = found["milliseconds"] / profile["span_milliseconds"]
        table.add_row(kind, f"{found['kernels']:,.0f}", f"{found['milliseconds']:.2f}", f"{share:.0%}")
    table.caption = f"{profile['kernels']:,.0f} kernels in {profile['span_milliseconds']:.2f} ms"
    return table


def latency_table(rows: list[dict[str, Any]]) -> Table:
    table = Table("patterns", "write ms", "ms a pattern", "read ms", "ms a pattern", title="Writing and reading")
    for row in rows:
        cells = []
        for kind in ("write", "read"):
            milliseconds = row[f"{kind}_milliseconds"]
            cells += [f"{milliseconds:.2f}", f"{milliseconds / row['patterns']:.3f}"]
        table.add_row(str(row["patterns"]), *cells)
    return table
