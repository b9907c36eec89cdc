"""The paper's tables: what it printed, what each cell takes to make, and both side by side."""

from .cells import Cell as Cell
from .cells import cell_of as cell_of
from .cells import cell_of_run as cell_of_run
from .cells import load_cell as load_cell
from .cells import load_cells as load_cells
from .cells import save_cell as save_cell
from .render import as_markdown as as_markdown
from .render import as_objects as as_objects
from .render import as_rich as as_rich
from .tables import TABLES as TABLES
from .tables import PaperTable as PaperTable
from .tables import System as System
