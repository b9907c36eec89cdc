"""One meta-update beside the same mathematics in PyTorch: do all gradients agree, and which is faster?

    pip install torch
    python benchmarks/against_pytorch.py --network conv --patterns 16 --out against-pytorch.json

The gradients are compared in float64, where rounding does not hide a mistake, and both are timed in float32, in turns.
PyTorch runs eagerly.

Turns alone are not fair on a busy machine. PyTorch's threads spin while they wait for each other: on two cores with a
load of 9, two threads took 20 s for what one did in 1.2 s, and 1.2 s with OMP_WAIT_POLICY=passive. Measure on an idle
machine, or with `--cores 1` and by the processor time. The load at the start is printed and saved.
"""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from ebmm import new_model, reconstruction_loss
from ebmm.cli.bench import subject
from ebmm.cli.output import check_place, told_plainly
from ebmm.core.model import EBMM
from ebmm.energies import GatedRNN
from ebmm.files import Tensors, as_json, named_arrays, write_whole
from ebmm.loops import Loop
from ebmm.provenance import provenance

try:
    import pytorch_reference as reference
    import torch  # pyright: ignore[reportMissingImports]
except ImportError as error:
    if error.name != "torch":
        raise
    raise SystemExit("ebmm: this comparison needs PyTorch, which ebmm itself does not: pip install torch") from None

AGREEMENT = 1e-4
"""The largest relative difference of an array of gradients that passes for rounding."""
value_and_grad = eqx.filter_value_and_grad(reconstruction_loss)


def in_pytorch(model: EBMM, episode: Any, device: str) -> Callable[[], tuple[Any, Any]]:
    """The same update as a function of nothing, at the same values."""
    tensors = reference.as_tensors(named_arrays(model), device)
    patterns, queries = (torch.tensor(np.asarray(x), device=device) for x in episode[:2])
    known = None if episode[2] is None else torch.tensor(np.asarray(episode[2]), device=device)
    if isinstance(model.energy, GatedRNN):
        energy = partial(reference.gated_rnn, hops=model.energy.hops)
    else:
        shape: Any = model.energy
        energy = partial(reference.resnet_conv, halvings=shape.halvings, hops=shape.head.hops)

    def update() -> tuple[Any, Any]:
        out = reference.loss_and_meta_gradient(energy, tensors, patterns, queries, domain=model.domain, known=known)
        if device == "cuda":
            torch.cuda.synchronize()
        return out

    return update


def differences(model: EBMM, episode: Any, device: str) -> dict[str, float]:
    """The relative difference of the loss and of every array of the meta-gradient, in float64."""
    with jax.enable_x64(True):
        model, episode = jax.tree.map(
            lambda x: x.astype(jnp.float64) if eqx.is_inexact_array(x) else x, (model, tuple(episode))
        )
        patterns, queries, known = episode
        loss, slopes = eqx.filter_jit(value_and_grad)(model, patterns, queries, known=known)
        ours: Tensors = {"loss": np.asarray(loss), **named_arrays(slopes)}
        loss, slopes = in_pytorch(model, episode, device)()
    theirs = {name: tensor.cpu().numpy() for name, tensor in {"loss": loss, **slopes}.items()}
    return {name: relative_difference(ours[name], theirs[name]) for name in theirs}


def relative_difference(a: np.ndarray, b: np.ndarray) -> float:
    size = max(float(np.linalg.norm(a)), float(np.linalg.norm(b)))
    return float(np.linalg.norm(a - b)) / size if size else 0.0


def compiled_update(model: EBMM, episode: Any) -> tuple[Callable[[], Any], float]:
    """The update as a function of nothing, and the seconds that tracing and compiling it took."""
    arguments = (model, episode.patterns, episode.queries)
    start = time.perf_counter()
    compilable: Any = eqx.filter_jit(value_and_grad)
    compiled = compilable.lower(*arguments, known=episode.known).compile()
    seconds = time.perf_counter() - start
    return lambda: jax.block_until_ready(compiled(*arguments, known=episode.known)), seconds


def in_turns(updates: dict[str, Callable[[], Any]], repeats: int) -> dict[str, np.ndarray]:
    """Milliseconds of wall and of processor time of each, [repeats, 2], after a turn to warm up."""
    times: dict[str, list[Any]] = {name: [] for name in updates}
    for _ in range(repeats + 1):
        for name, update in updates.items():
            wall, processor = time.perf_counter(), time.process_time()
            update()
            times[name].append((time.perf_counter() - wall, time.process_time() - processor))
    return {name: 1e3 * np.array(each[1:]) for name, each in times.items()}


def use_cores(count: int) -> None:
    """Keep both to so many cores; before JAX starts its threads."""
    if not hasattr(os, "sched_setaffinity"):
        raise ValueError("--cores works on Linux only; leave it out here.")
    allowed = sorted(os.sched_getaffinity(0))
    if not 1 <= count <= len(allowed):
        raise ValueError(f"--cores {count}: expected 1 to {len(allowed)}, which this process may use.")
    os.sched_setaffinity(0, allowed[:count])
    torch.set_num_threads(count)


def main(
    *,
    network: Literal["rnn", "conv", "small"] = "small",
    patterns: int = 16,
    steps: int = 5,
    repeats: int = 5,
    unroll: tuple[bool, ...] = (False,),
    device: Literal["cpu", "cuda"] = "cpu",
    cores: int | None = None,
    out: Path | None = None,
) -> None:
    """Compare one meta-update with PyTorch's.

    Args:
        network: The paper's gated RNN or convolutional network, or a small RNN.
        patterns: Patterns in the episode.
        steps: Of writing, and of reading.
        repeats: Of each measurement; the median counts.
        unroll: How JAX compiles the loops; both to compare, with `--unroll False True`.
        device: Where both run.
        cores: Keep both to so many cores; all of them otherwise.
        out: Where to save all of it as JSON.
    """
    console = Console()
    with told_plainly():
        check_place("--out", out, ".json")
        if min(patterns, steps, repeats) < 1 or not unroll:
            raise ValueError(
                "expected positive numbers of patterns, steps and repeats, and a way to compile the loops."
            )
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        if cores is not None:
            use_cores(cores)
        jax.config.update("jax_platforms", device)
        jax.config.update("jax_enable_compilation_cache", False)  # the time to compile is one of the results
        if device == "cuda":
            # JAX takes most of the memory at once if it may, and multiplies in TF32 by default.
            os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
            torch.backends.cuda.matmul.allow_tf32 = True
        model, sample = subject(network, patterns)
        episode = sample(jax.random.key(1))
        model = new_model(model.energy, episode.patterns, domain=model.domain, write_steps=steps, read_steps=steps)

    with console.status("Comparing gradients in float64"):
        found = differences(model, episode, device)
    worst = max(found, key=lambda name: found[name])
    console.print(
        f"Loss and {len(found) - 1} gradients; the largest relative difference is {found[worst]:.1e}, of {worst}"
    )
    if not found[worst] <= AGREEMENT:
        raise SystemExit(f"ebmm: the gradients of {worst} differ by {found[worst]:.1e}; expected at most {AGREEMENT}.")

    updates, compile_seconds = {"PyTorch": in_pytorch(model, episode, device)}, {}
    for each in unroll:
        name = "JAX, unrolled" if each else "JAX"
        with console.status(f"Compiling for {name}"):
            updates[name], compile_seconds[name] = compiled_update(replace(model, loop=Loop(unroll=each)), episode)
    with console.status("Timing in turns"):
        times = {name: np.median(each, axis=0) for name, each in in_turns(updates, repeats).items()}
    rows = [
        {
            "name": name,
            "milliseconds": float(wall),
            "processor_milliseconds": float(processor),
            "times_as_fast_as_pytorch": float(times["PyTorch"][0] / wall),
            "times_less_processor_time": float(times["PyTorch"][1] / processor),
            "compile_seconds": compile_seconds.get(name),
        }
        for name, (wall, processor) in times.items()
    ]
    console.print(
        as_table(rows, f"One meta-update of {network}, {patterns} patterns, {steps} + {steps} steps, {device}")
    )
    console.print(f"Load of the machine at the start, in busy cores: {load}")
    if out is not None:
        about = {"network": network, "patterns": patterns, "steps": steps, "repeats": repeats}
        agreement = {"largest_relative_difference": found[worst], "of": worst}
        versions = {"torch": torch.__version__, "torch_threads": torch.get_num_threads()}
        about |= {"cores": cores, "load_at_start": load}
        write_whole({out: as_json(about | agreement | provenance(seed=0) | versions | {"rows": rows})})
        console.print(f"Saved {out}", soft_wrap=True)


def as_table(rows: list[dict[str, Any]], title: str) -> Table:
    table = Table("", title=title)
    for column in ("ms", "times as fast", "processor ms", "times less", "compile s"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row["name"],
            f"{row['milliseconds']:.1f}",
            f"{row['times_as_fast_as_pytorch']:.2f}",
            f"{row['processor_milliseconds']:.1f}",
            f"{row['times_less_processor_time']:.2f}",
            "" if row["compile_seconds"] is None else f"{row['compile_seconds']:.1f}",
        )
    return table


if __name__ == "__main__":
    tyro.cli(main)
