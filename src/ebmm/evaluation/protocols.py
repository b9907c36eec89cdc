"""The paper's experiments as data: which patterns, how many, what damage, which metric."""

from dataclasses import dataclass

from ..data import DATASETS
from ..data.binary import strings
from ..data.distortions import distortion
from ..data.episodes import Episodes
from ..data.images import AbstractPatterns, Correlated


@dataclass(frozen=True)
class Protocol:
    """What is stored, how it is damaged, and how the recall is judged."""

    data: str
    """A dataset, or `strings`."""
    patterns: int
    damage: str
    metric: str = "hamming"
    reveal: bool = False
    """Whether the reader is told what is undamaged, and may clamp it."""
    classes: int | None = None
    """From how many classes each batch is drawn; from all alike if None."""
    bits: int = 128
    """Of a string."""

    def episodes(self, split: str = "test") -> Episodes:
        """The dataset is loaded, and downloaded if need be."""
        return Episodes(self.source(split), distortion(self.damage), self.patterns, reveal=self.reveal)

    def source(self, split: str) -> AbstractPatterns:
        if self.data == "strings":
            return strings(self.bits)
        if self.data not in DATASETS:
            raise ValueError(f"data: got {self.data!r}; expected strings, {', '.join(DATASETS)}.")
        images = DATASETS[self.data].images(split)
        return images if self.classes is None else Correlated(images, classes=self.classes)


PROTOCOLS = {
    "strings": Protocol("strings", 64, "bits:0.5", reveal=True),
    "omniglot": Protocol("omniglot", 64, "block:16"),
    "omniglot-salt": Protocol("omniglot", 16, "salt-and-pepper:0.15"),
    "omniglot-uniform": Protocol("omniglot", 32, "block:16"),
    "omniglot-correlated": Protocol("omniglot", 32, "block:16", classes=2),
    "omniglot-sample": Protocol("omniglot-sample", 64, "block:16"),
    "mnist": Protocol("mnist", 64, "block:16"),
    "cifar10": Protocol("cifar10", 64, "block:16:noise", metric="squared"),
    "imagenet64": Protocol("imagenet64", 32, "block:32:noise", metric="squared"),
    "tiny-imagenet": Protocol("tiny-imagenet", 32, "block:32:noise", metric="squared"),
}
