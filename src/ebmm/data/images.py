"""Images held as small as they are, and drawn from on the accelerator."""

import abc
import hashlib
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8

from ..interface import Domain
from .sampling import distinct


class AbstractPatterns(eqx.Module):
    """Something that patterns can be drawn from, inside a compiled function."""

    pattern_shape: eqx.AbstractVar[tuple[int, ...]]
    domain: eqx.AbstractVar[Domain]

    @abc.abstractmethod
    def draw(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "count *pattern"]:
        """So many random patterns; from a finite set, none of them twice."""


class Images(AbstractPatterns):
    """A set of labelled images: eight pixels a byte where they are bits, otherwise a byte a value.

    Pass it to a compiled function as an argument: its arrays then stay on the accelerator and are not
    compiled into the function.
    """

    stored: UInt8[Array | np.ndarray, "n bytes"]
    labels: Int[Array | np.ndarray, " n"]
    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    levels: int = eqx.field(static=True)
    """The value that stands for 1: 1 for bits, 255 for bytes."""
    domain: Domain = eqx.field(static=True, default=(0.0, 1.0))

    @classmethod
    def packed(cls, pixels: Any, labels: Any, *, levels: int) -> "Images":
        """From pixels [n, height, width, channels] in 0…levels."""
        pixels, labels = np.asarray(pixels), np.asarray(labels)
        if levels not in (1, 255) or pixels.ndim != 4 or pixels.dtype.kind not in "biu" or len(pixels) == 0:
            raise ValueError(
                f"got {pixels.dtype} pixels of shape {pixels.shape} with {levels} levels; expected bools or whole "
                "numbers [n, height, width, channels], with 1 level for bits or 255 for bytes."
            )
        if pixels.min() < 0 or pixels.max() > levels:
            raise ValueError(f"got pixels from {pixels.min()} to {pixels.max()}; expected 0 to {levels}.")
        if labels.shape != pixels.shape[:1]:
            raise ValueError(f"got labels of shape {labels.shape}; expected one for each of {len(pixels)} images.")
        flat = pixels.astype(np.uint8).reshape(len(pixels), -1)
        stored = np.packbits(flat, axis=1) if levels == 1 else flat
        labels = labels.astype(np.int32)
        return cls(stored=stored, labels=labels, pattern_shape=pixels.shape[1:], levels=levels)

    def __len__(self) -> int:
        return self.stored.shape[0]

    def take(self, indices: Int[Array | np.ndarray, " count"]) -> Float[Array, "count *pattern"]:
        """The images at these places, with values in [0, 1]."""
        stored = jnp.asarray(self.stored)[indices]
        size = int(np.prod(self.pattern_shape))
        values = jnp.unpackbits(stored, axis=1)[:, :size] if self.levels == 1 else stored
        return (values.astype(jnp.float32) / self.levels).reshape(-1, *self.pattern_shape)

    def as_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """All images, float32 in [0, 1], and their labels; in the machine's own memory, not on the accelerator."""
        stored = np.asarray(self.stored)
        size = int(np.prod(self.pattern_shape))
        values = np.unpackbits(stored, axis=1, count=size) if self.levels == 1 else stored
        images = (values.astype(np.float32) / np.float32(self.levels)).reshape(-1, *self.pattern_shape)
        return images, np.array(self.labels)

    def draw(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "count *pattern"]:
        return self.take(distinct(count, len(self), key=key))

    def hashes(self) -> list[bytes]:
        """One for each image, the same for the same pixels."""
        return [hashlib.sha256(row.tobytes()).digest() for row in np.asarray(self.stored)]

    def without(self, others: "Images") -> "Images":
        """Those that are not, pixel by pixel, among the others."""
        seen = set(others.hashes())
        kept = np.array([digest not in seen for digest in self.hashes()])
        return Images(
            stored=np.asarray(self.stored)[kept],
            labels=np.asarray(self.labels)[kept],
            pattern_shape=self.pattern_shape,
            levels=self.levels,
        )


class Binarised(AbstractPatterns):
    """Images made black and white: 1 where the mean of the channels is above a half."""

    images: Images
    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)

    def __init__(self, images: Images):
        self.images = images
        self.pattern_shape, self.domain = (*images.pattern_shape[:-1], 1), images.domain

    def draw(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "count *pattern"]:
        grey = jnp.mean(self.images.draw(count, key=key), axis=-1, keepdims=True)
        return (grey > 0.5).astype(jnp.float32)


class Correlated(AbstractPatterns):
    """Images of a few classes at a time, equally many of each: a batch that is worth compressing."""

    images: Images
    members: Int[Array | np.ndarray, "classes largest"]
    """The places of the images of each class; a smaller class is filled up with -1."""
    classes: int = eqx.field(static=True)
    smallest: int = eqx.field(static=True)
    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)

    def __init__(self, images: Images, *, classes: int):
        labels = np.asarray(images.labels)
        names, counts = np.unique(labels, return_counts=True)
        if not 1 <= classes <= len(names):
            raise ValueError(f"classes: got {classes}; expected 1 to {len(names)}, as many as there are.")
        members = np.full((len(names), counts.max()), -1, np.int32)
        for row, name in enumerate(names):
            members[row, : counts[row]] = np.flatnonzero(labels == name)
        self.images, self.members, self.classes, self.smallest = images, members, classes, int(counts.min())
        self.pattern_shape, self.domain = images.pattern_shape, images.domain

    def draw(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "count *pattern"]:
        class_key, member_key = jax.random.split(key)
        each, rest = divmod(count, self.classes)
        if rest or not 0 < each <= self.smallest:
            raise ValueError(
                f"got {count} images of {self.classes} classes; expected equally many of each, and at most "
                f"{self.smallest}, the size of the smallest class."
            )
        members = jnp.asarray(self.members)[distinct(self.classes, len(self.members), key=class_key)]
        # The places that hold no image come last in a random order of all places.
        order = jnp.where(members >= 0, jax.random.uniform(member_key, members.shape), 2.0)
        chosen = jnp.take_along_axis(members, jnp.argsort(order, axis=1)[:, :each], axis=1)
        return self.images.take(chosen.ravel())
