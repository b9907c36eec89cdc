"""The command line: `ebmm COMMAND`, one file a command."""

import sys
from collections.abc import Callable
from typing import Any

import tyro

from .. import __version__
from .recall import recall

COMMANDS: dict[str, Callable[..., Any]] = {"recall": recall}


def main(arguments: list[str] | None = None) -> None:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(__version__)
        return
    description = f"Associative memory in the weights of a neural network (ebmm {__version__})."
    tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="ebmm", description=description, args=arguments)
