"""Where a number comes from: what has to stand beside it so that it can be measured again."""

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax


def provenance(*, seed: int) -> dict[str, Any]:
    """Command, seed, commit, versions and hardware of this process, and the compiler's flags, for a results file."""
    from . import __version__

    flags = os.environ.get("XLA_FLAGS")
    return {
        "command": _command(),
        "seed": seed,
        "commit": _commit(),
        "ebmm": __version__,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "device": _device(),
        **({"xla_flags": flags} if flags else {}),
    }


def _command() -> str:
    """As anyone would type it: the installed command by its name, a script by its path."""
    program, *arguments = sys.argv
    if Path(program).name in ("ebmm", "ebmm.exe") or Path(program).parts[-2:] == ("ebmm", "__main__.py"):
        return shlex.join(["ebmm", *arguments])
    return shlex.join(["python", program, *arguments])


def _device() -> str:
    device = jax.devices()[0]
    return f"{os.cpu_count()} CPU cores" if device.platform == "cpu" else device.device_kind


def _commit() -> str | None:
    """The checkout's commit; where the code was copied without its history, `EBMM_COMMIT` says it."""
    if "EBMM_COMMIT" in os.environ:
        return os.environ["EBMM_COMMIT"]
    try:
        folder = Path(__file__).parent
        git = ["git", "-C", str(folder)]
        # Installed into an environment inside some other repository, that one's commit would say nothing.
        subprocess.run([*git, "ls-files", "--error-unmatch", Path(__file__).name], capture_output=True, check=True)
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run(
            [*git, "status", "--porcelain", "."], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit} with changes" if changed else commit
