"""How fast training and memories are on this machine, and how far from what its matrix products reach."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..core.model import EBMM
from ..data.episodes import Episodes
from ..interface import AbstractMemoryModel
from ..loops import Loop
from .kernels import profile_of
from .settings import Keep, Precision, Settings, Stage
from .trainer import in_training, updates_in_a_call
from .update import Learner, program


def seconds_of(work: Callable[[], Any], repeats: int) -> float:
    """The median time of something that has been compiled, after one run to warm up."""
    jax.block_until_ready(work())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(work())
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def matrix_product_speed(*, repeats: int = 5) -> float:
    """FLOP/s of a large float32 matrix product with JAX's default precision: what this machine can reach."""
    size = 1024 if jax.default_backend() == "cpu" else 8192
    matrix = jax.random.normal(jax.random.key(0), (size, size))
    product = jax.jit(lambda a: a @ a)
    return 2 * size**3 / seconds_of(lambda: product(matrix), repeats)


def update_speed(
    model: AbstractMemoryModel,
    sample: Episodes,
    *,
    episodes: int,
    group: int = 1,
    keep: Keep = "products",
    triton: bool = True,
    precision: Precision = "float32",
    unroll: bool = False,
    work: float | None = None,
    repeats: int = 5,
    profile: bool = False,
) -> dict[str, Any]:
    """Time, memory and work of one meta-update of this many episodes, as training does it: several in a call on a GPU.

    `work` is the FLOP of one episode, if it is known: counting takes as long as tracing an unrolled update.
    """
    updates = updates_in_a_call()
    stages = (Stage(sample.patterns, episodes, 1),)
    same: Any = {"group": group, "keep": keep, "triton": triton, "precision": precision, "unroll": unroll}
    settings = Settings(updates=1, stages=stages, **same)
    compiled, given, took = _compiled(model, sample, settings, updates=updates)
    seconds = seconds_of(lambda: compiled(*given), repeats) / updates
    total = episodes * (flops_of_an_episode(model, sample) if work is None else work)
    return {
        "patterns": sample.patterns,
        "episodes": episodes,
        "copies": sample.copies,
        **same,
        "updates_in_a_call": updates,
        "milliseconds": 1e3 * seconds,
        "milliseconds_an_episode": 1e3 * seconds / episodes,
        **took,
        "peak_megabytes": peak_bytes(compiled) / 1e6,
        "gigaflop": total / 1e9,
        "teraflops": total / seconds / 1e12,
        "profile": profile_of(lambda: compiled(*given), updates=updates) if profile else None,
    }


def _compiled(
    model: AbstractMemoryModel, sample: Episodes, settings: Settings, *, updates: int
) -> tuple[Any, tuple[Any, ...], dict[str, float]]:
    """The compiled updates, what to call them with, and how long it took to get them."""
    given = _arguments(in_training(model, settings), sample, settings, updates)
    start = time.perf_counter()
    lowered = program(settings).lower(*given)
    traced = time.perf_counter()
    compiled = lowered.compile()
    return compiled, given, {"trace_seconds": traced - start, "compile_seconds": time.perf_counter() - traced}


def _arguments(model: AbstractMemoryModel, sample: Episodes, settings: Settings, updates: int) -> tuple[Any, ...]:
    indices, rates = np.zeros(updates, np.int32), np.zeros(updates, np.float32)
    return (
        Learner.of(model, settings),
        sample,
        settings.stages[0].episodes,
        "hamming",
        settings,
        jax.random.key(0),
        indices,
        rates,
    )


def memory_limit() -> float | None:
    """Bytes that JAX may use on the first device, if it tells."""
    return ((jax.devices()[0].memory_stats() or {}).get("bytes_limit")) or None


def largest_batch(
    model: AbstractMemoryModel, sample: Episodes, rows: list[dict[str, Any]], *, limit: float, tries: int = 4
) -> dict[str, Any]:
    """The most episodes of one update that fit into `limit` bytes, run once.

    `rows` are measurements of `update_speed` with two or more numbers of episodes and the same `keep`. What an update
    needs grows by the same bytes with each episode, so that two of them tell where to try.
    """
    few, many = (pick(rows, key=lambda row: row["episodes"]) for pick in (min, max))
    if few["episodes"] == many["episodes"] or few["keep"] != many["keep"]:
        raise ValueError("got measurements of one number of episodes; expected two to tell what one more needs.")
    needed = 1e6 * many["peak_megabytes"]
    each = (needed - 1e6 * few["peak_megabytes"]) / (many["episodes"] - few["episodes"])
    count = many["episodes"] + int((limit - needed) / each)
    for _ in range(tries):
        count = max(count, 1)
        stages = (Stage(sample.patterns, count, 1),)
        same: Any = {name: many[name] for name in ("keep", "triton", "precision", "unroll")}
        settings = Settings(updates=1, stages=stages, group=count, **same)
        compiled, given, took = _compiled(model, sample, settings, updates=1)
        needed = peak_bytes(compiled)
        if needed <= limit:
            try:
                seconds = seconds_of(lambda call=compiled, with_=given: call(*with_), 1)
            except jax.errors.JaxRuntimeError as error:
                if "RESOURCE_EXHAUSTED" not in str(error):
                    raise
            else:
                return {
                    "patterns": sample.patterns,
                    "episodes": count,
                    **same,
                    "milliseconds": 1e3 * seconds,
                    "milliseconds_an_episode": 1e3 * seconds / count,
                    **took,
                    "peak_megabytes": needed / 1e6,
                    "limit_megabytes": limit / 1e6,
                }
        count -= max(int((needed - limit) / each) + 1, count // 20)
    raise MemoryError(f"no batch of about {count} episodes fits into {limit / 1e6:,.0f} MB, as its growth promised.")


def flops_of_an_episode(model: AbstractMemoryModel, sample: Episodes) -> float:
    """The floating-point operations of an update of one episode by XLA's count, which sees the body of a loop once:
    loops are unrolled for it. What is computed a second time on the way back is not counted. The count is that of the
    CPU's version of the same program: only the CPU's part of JAX tells it.
    """
    unrolled = replace(model, loop=Loop(unroll=True)) if isinstance(model, EBMM) else model
    settings = Settings(updates=1, stages=(Stage(sample.patterns, 1, 1),))
    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu):
        given = _arguments(unrolled, sample, settings, 1)
        arrays, rest = eqx.partition(given, eqx.is_array)
        lowered = program(settings).lower(*eqx.combine(jax.device_put(arrays, cpu), rest))
    return float(lowered.lowered.cost_analysis()["flops"])


def peak_bytes(compiled: Any) -> float:
    """What the compiled update needs: its arguments, its results and everything in between."""
    analysis = compiled.compiled.memory_analysis()
    return float(analysis.temp_size_in_bytes + analysis.argument_size_in_bytes + analysis.output_size_in_bytes)


_write = eqx.filter_jit(lambda model, patterns: model.write(patterns))
_read = eqx.filter_jit(lambda model, state, queries: model.read(state, queries).patterns)


def latency(model: AbstractMemoryModel, patterns: jax.Array, *, repeats: int = 5) -> dict[str, Any]:
    """Milliseconds to write these patterns, and to read as many, all at once."""
    state = _write(model, patterns)
    return {
        "patterns": len(patterns),
        "write_milliseconds": 1e3 * seconds_of(lambda: _write(model, patterns), repeats),
        "read_milliseconds": 1e3 * seconds_of(lambda: _read(model, state, patterns), repeats),
    }
