"""Associative memory in the weights of a neural network: deep energy-based memory models, meta-learned in JAX."""

from . import data as data
from . import energies as energies
from .core.model import EBMM as EBMM
from .core.objective import reconstruction_loss as reconstruction_loss
from .core.rates import ReadRates as ReadRates
from .core.rates import WriteRates as WriteRates
from .core.reading import read as read
from .core.writing import write as write
from .data.binary import string_episode as string_episode
from .data.binary import strings as strings
from .data.distortions import distortion as distortion
from .data.episodes import Episode as Episode
from .data.episodes import Episodes as Episodes
from .data.images import Images as Images
from .evaluation.errors import measure_errors as measure_errors
from .initial import CALIBRATED as CALIBRATED
from .initial import PAPER as PAPER
from .initial import InitialRates as InitialRates
from .initial import new_model as new_model
from .interface import AbstractMemoryModel as AbstractMemoryModel
from .interface import Readout as Readout
from .memory import Memory as Memory
from .rehearsal import Rehearsal as Rehearsal
from .training.loop import meta_learning as meta_learning

__version__ = "0.1.0"
