"""Downloads that end in a whole file with the right checksum, or in none."""

import logging
from pathlib import Path

import pooch
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn


def download(url: str, path: Path, *, checksum: str | None, otherwise: str) -> None:
    """Fetch a file under a temporary name, check it, and only then give it its own.

    `otherwise` says in an error what can be done instead.
    """
    import requests  # takes a while to import, and few need it

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)  # the bar says the same
    try:
        with _Bar(path.name) as bar:
            path.parent.mkdir(parents=True, exist_ok=True)
            downloader = pooch.HTTPDownloader(
                progressbar=bar,  # pyright: ignore[reportArgumentType]
                headers={"Accept-Encoding": "identity"},  # a .gz file is to stay one
            )
            pooch.retrieve(
                url,
                checksum,
                fname=path.name,
                path=path.parent,
                downloader=downloader,  # pyright: ignore[reportArgumentType]
            )
    except requests.RequestException as error:
        raise ConnectionError(f"{url} could not be downloaded ({_first_line(error)}). {otherwise}") from None
    except ValueError as error:  # pooch has removed what it downloaded
        raise ValueError(f"{url} is not the file that was published ({_first_line(error)}). {otherwise}") from None
    except OSError as error:
        raise OSError(f"{path} could not be written ({error}). {otherwise}") from None
    finally:
        logger.setLevel(level)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


class _Bar:
    """A rich progress bar with the few methods that pooch asks of one; on a terminal only."""

    def __init__(self, name: str):
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        console = Console(stderr=True)
        self.progress = Progress(
            *columns, TransferSpeedColumn(), TimeRemainingColumn(), console=console, disable=not console.is_terminal
        )
        self.task = self.progress.add_task(f"Downloading {name}", total=None)

    def __enter__(self) -> "_Bar":
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    @property
    def total(self) -> float | None:
        return self.progress.tasks[0].total

    @total.setter
    def total(self, size: int) -> None:
        self.progress.update(self.task, total=size)

    def update(self, count: int) -> None:
        self.progress.update(self.task, advance=count)

    def reset(self) -> None:
        """Pooch sets the bar back before it fills it up at the end."""
        self.progress.update(self.task, completed=0)

    def close(self) -> None:
        pass
