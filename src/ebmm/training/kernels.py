"""Where a GPU spends the time of a compiled call: its kernels by what they do."""

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import jax

KINDS = {
    # By words in the names that XLA and the libraries give their kernels; the first that fits counts.
    "matrix products": ("gemm", "cutlass", "cublas", "nvjet", "dot"),
    "sums": ("reduce",),
    "gathering of patches": ("concatenate",),
    "transposes": ("transpose",),
    "copies": ("memcpy", "memset", "copy", "slice"),
}
OTHER = "element by element"


class Kernel(NamedTuple):
    """One launch."""

    name: str
    start: float
    """Nanoseconds, as the duration."""
    duration: float


def kind_of(name: str) -> str:
    return next((kind for kind, words in KINDS.items() if any(word in name.lower() for word in words)), OTHER)


def check_profiled() -> None:
    if jax.default_backend() != "gpu":
        raise ValueError(f"got a {jax.default_backend()}; expected a GPU to profile, whose kernels can be told apart.")


def profile_of(call: Callable[[], Any], *, updates: int) -> dict[str, Any]:
    """Run something compiled once more, watched: for each update the kernels, and the milliseconds of each kind."""
    check_profiled()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(call())
        traces = sorted(Path(folder).rglob("*.xplane.pb"))
        data = jax.profiler.ProfileData.from_file(str(traces[-1]))
        found = [
            Kernel(event.name, event.start_ns, event.duration_ns)
            for plane in data.planes
            if "GPU" in plane.name
            for line in plane.lines
            if "Stream" in line.name
            for event in line.events
        ]
    return summary(found, updates=updates)


def summary(kernels: Iterable[Kernel], *, updates: int) -> dict[str, Any]:
    """Counts and milliseconds of an update, longest kind first. `span` is from the first kernel to the last."""
    kernels = list(kernels)
    kinds: dict[str, dict[str, float]] = {}
    for kernel in kernels:
        kind = kinds.setdefault(kind_of(kernel.name), {"kernels": 0.0, "milliseconds": 0.0})
        kind["kernels"] += 1 / updates
        kind["milliseconds"] += kernel.duration / 1e6 / updates
    first = min((kernel.start for kernel in kernels), default=0.0)
    last = max((kernel.start + kernel.duration for kernel in kernels), default=0.0)
    return {
        "kernels": len(kernels) / updates,
        "span_milliseconds": (last - first) / 1e6 / updates,
        "kinds": dict(sorted(kinds.items(), key=lambda item: -item[1]["milliseconds"])),
    }
