"""The command line: `ebmm COMMAND`, one file a command."""

import sys

from tyro.extras import SubcommandApp

from .. import __version__
from .bench import bench
from .compiled import keep_compiled
from .data import get, list_datasets, show
from .evaluate import evaluate
from .figure import figure
from .images import read, write
from .inspect import inspect
from .recall import recall
from .table import table
from .train import curve, list_experiments, train


def commands() -> SubcommandApp:
    data = SubcommandApp()
    data.command(name="list")(list_datasets)
    data.command(name="get")(get)
    data.command(name="show")(show)
    app = SubcommandApp()
    app.command(recall)
    app.command(write)
    app.command(read)
    app.command(inspect)
    app.command(evaluate)
    app.command(train)
    app.command(curve)
    app.command(bench)
    app.command(table)
    app.command(figure)
    app.command(name="list")(list_experiments)
    app.command(data, name="data")
    return app


def main(arguments: list[str] | None = None) -> None:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(__version__)
        return
    keep_compiled()
    description = f"Associative memory in the weights of a neural network (ebmm {__version__})."
    commands().cli(prog="ebmm", description=description, args=arguments)
