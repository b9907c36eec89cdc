"""Patterns to store and the damage to recover them from."""

from .cifar10 import CIFAR10 as CIFAR10
from .dataset import Dataset as Dataset
from .imagenet64 import IMAGENET64 as IMAGENET64
from .mnist import MNIST as MNIST
from .omniglot import OMNIGLOT as OMNIGLOT
from .omniglot_sample import OMNIGLOT_SAMPLE as OMNIGLOT_SAMPLE
from .tiny_imagenet import TINY_IMAGENET as TINY_IMAGENET

DATASETS: dict[str, Dataset] = {
    dataset.name: dataset for dataset in (OMNIGLOT, OMNIGLOT_SAMPLE, CIFAR10, MNIST, TINY_IMAGENET, IMAGENET64)
}
