"""What was compiled and traced is kept in the user's cache, so that a command waits for it once."""

import platform
from pathlib import Path

import jax

from ..data.dataset import user_folder

WORTH_KEEPING = 0.3  # seconds of compiling; JAX itself keeps nothing that took less than one


def keep_compiled() -> None:
    """Choose JAX's compilation cache, unless one was chosen already; for the command line, not for the library."""
    if jax.config.jax_compilation_cache_dir is not None:  # pyright: ignore[reportAttributeAccessIssue]
        return
    # A home folder may be shared by machines whose processors differ.
    folder: Path = user_folder() / "compiled" / (platform.node() or "here")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a home that cannot be written to: every command compiles anew
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", WORTH_KEEPING)


def traced_folder() -> Path | None:
    """Where traced updates are kept, beside what was compiled from them, if that is kept on a disk."""
    chosen: str | None = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    return None if not chosen or "://" in chosen else Path(chosen) / "traced"
