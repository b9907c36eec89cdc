"""Every experiment by name: what is trained, on what, and how. Data only; the code is elsewhere."""

from .experiment import Experiment as Experiment
from .omniglot import OMNIGLOT
from .strings import STRINGS

EXPERIMENTS = {experiment.name: experiment for experiment in (*STRINGS, *OMNIGLOT)}
