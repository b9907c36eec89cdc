"""Patterns to store and the damage to recover them from."""

from .cifar10 import CIFAR10
from .dataset import Dataset
from .imagenet64 import IMAGENET64
from .mnist import MNIST
from .omniglot import OMNIGLOT
from .omniglot_sample import OMNIGLOT_SAMPLE
from .tiny_imagenet import TINY_IMAGENET

DATASETS: dict[str, Dataset] = {
    dataset.name: dataset for dataset in (OMNIGLOT, OMNIGLOT_SAMPLE, CIFAR10, MNIST, TINY_IMAGENET, IMAGENET64)
}
