"""The systems that the paper compares with, and those that a user would pick today, one file each."""

from ..interface import AbstractMemoryModel
from .autoencoder import AutoEncoder as AutoEncoder
from .deep_image_prior import DeepImagePrior as DeepImagePrior
from .exact_store import ExactStore as ExactStore
from .hopfield import Hopfield as Hopfield
from .kanerva import KanervaMachine as KanervaMachine
from .lstm import LSTM as LSTM
from .mann import MANN as MANN
from .memory_network import MemoryNetwork as MemoryNetwork
from .modern_hopfield import ModernHopfield as ModernHopfield
from .plasticity import Plasticity as Plasticity
from .vae import VAE as VAE

SYSTEMS: dict[str, type[AbstractMemoryModel]] = {
    system.__name__: system
    for system in (
        AutoEncoder,
        DeepImagePrior,
        ExactStore,
        Hopfield,
        KanervaMachine,
        LSTM,
        MANN,
        MemoryNetwork,
        ModernHopfield,
        Plasticity,
        VAE,
    )
}
"""By name, as saved models and experiments call them. Add one of your own to train, save and load it like these."""
