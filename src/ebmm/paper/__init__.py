"""The paper's tables: what it printed, what each cell takes to make, and both side by side."""

from .baselines import BASELINES
from .binary import BINARY
from .cells import Cell as Cell
from .cells import cell_of as cell_of
from .cells import cells_of_run as cells_of_run
from .cells import load_cell as load_cell
from .cells import load_cells as load_cells
from .cells import save_cell as save_cell
from .render import as_markdown as as_markdown
from .render import as_objects as as_objects
from .render import as_rich as as_rich
from .tables import Column as Column
from .tables import PaperTable as PaperTable
from .tables import Place as Place
from .tables import System as System
from .tables import experiment_at as experiment_at
from .tables import patterns_at as patterns_at

TABLES = {table.name: table for table in (BINARY, BASELINES)}
