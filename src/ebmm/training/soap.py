"""SOAP: Adam in the directions that the gradients of a matrix are made of (Vyas et al. 2024, arXiv:2409.11321).

The gradients of one weight matrix differ by orders of magnitude from direction to direction, and the longest are those
that bear the shortest steps. Adam sees single weights, over which every such direction is spread, and Muon steps
equally far along all singular directions, the longest too. Here the gradient G is turned into the eigenvectors of the
running means of G Gᵀ and Gᵀ G first, where each number is nearly a direction of its own, and Adam does the rest.
Unlike in the publication, the bases start as they are and are renewed at each of the first updates, none of which is
left out.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

product = partial(jnp.matmul, precision="highest")  # in TF32, to turn there and back would lose the small numbers


class Basis(NamedTuple):
    """One side of a matrix: what its gradients look like, and the directions to see them in."""

    moment: Float[Array, "size size"]
    directions: Float[Array, "size size"]

    @classmethod
    def plain(cls, size: int, dtype: Any) -> "Basis":
        return cls(jnp.zeros((size, size), dtype), jnp.eye(size, dtype=dtype))

    def seen(self, moment: Float[Array, "size size"], decay: float) -> "Basis":
        return Basis(decay * self.moment + (1 - decay) * moment, self.directions)

    def turned(self, is_due: Bool[Array, ""]) -> "Basis":
        """If it is due, with one step of orthogonal iteration towards the eigenvectors of the moment."""

        def renewed(basis: Basis) -> Float[Array, "size size"]:
            return jnp.linalg.qr(product(basis.moment, basis.directions))[0]

        return Basis(self.moment, jax.lax.cond(is_due, renewed, lambda basis: basis.directions, self))


Bases = tuple[Basis | None, Basis | None]
"""Of both sides; None for one that is not turned."""


class Moments(NamedTuple):
    """What is remembered of one parameter's gradients."""

    mean: Array
    """In the parameter's own shape, so that it outlives a change of basis."""
    square: Array
    """As a matrix, in the two bases."""
    bases: Bases


class SoapState(NamedTuple):
    steps: Int[Array, ""]
    moments: PyTree


def scale_by_soap(
    is_turned: Callable[[PyTree], PyTree],
    *,
    mean_decay: float = 0.95,
    square_decay: float = 0.99,
    epsilon: float = 1e-8,
    every: int = 10,
) -> optax.GradientTransformation:
    """Adam for all parameters; for those that `is_turned` marks, in bases that are renewed after every so many updates.

    A convolution's kernel is a matrix of all that it reads by all that it gives.
    """

    def init(params: PyTree) -> SoapState:
        def moments(parameter: Array, turned: bool) -> Moments:
            matrix = jnp.zeros_like(as_matrix(parameter))
            left, right = (Basis.plain(size, matrix.dtype) if turned and size > 1 else None for size in matrix.shape)
            return Moments(jnp.zeros_like(parameter), matrix, (left, right))

        return SoapState(jnp.array(0, jnp.int32), jax.tree.map(moments, params, is_turned(params)))

    def update(updates: PyTree, state: Any, params: PyTree = None) -> tuple[PyTree, SoapState]:
        steps = state.steps + 1
        unbiased_mean, unbiased_square = 1 - mean_decay**steps, 1 - square_decay**steps
        is_due = (steps % every == 0) | (steps < every)

        def step(gradient: Array, before: Moments) -> tuple[Array, Moments]:
            mean = mean_decay * before.mean + (1 - mean_decay) * gradient
            seen, expected = (turned_into(before.bases, as_matrix(each)) for each in (gradient, mean))
            square = square_decay * before.square + (1 - square_decay) * seen**2
            change = expected / unbiased_mean / (jnp.sqrt(square / unbiased_square) + epsilon)
            change = turned_back(before.bases, change).reshape(gradient.shape)
            return change, Moments(mean, square, renewed(before.bases, as_matrix(gradient)))

        def renewed(bases: Bases, matrix: Float[Array, "rows columns"]) -> Bases:
            left, right = bases
            if left is not None:
                left = left.seen(product(matrix, matrix.T), square_decay).turned(is_due)
            if right is not None:
                right = right.seen(product(matrix.T, matrix), square_decay).turned(is_due)
            return left, right

        leaves, structure = jax.tree.flatten(updates)
        pairs = [step(*each) for each in zip(leaves, structure.flatten_up_to(state.moments), strict=True)]
        changes, moments = (structure.unflatten(each) for each in zip(*pairs, strict=True))
        return changes, SoapState(steps, moments)

    return optax.GradientTransformation(init, update)


def as_matrix(array: Array) -> Float[Array, "rows columns"]:
    return array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)


def turned_into(bases: Bases, matrix: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
    left, right = bases
    matrix = matrix if left is None else product(left.directions.T, matrix)
    return matrix if right is None else product(matrix, right.directions)


def turned_back(bases: Bases, matrix: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
    left, right = bases
    matrix = matrix if left is None else product(left.directions, matrix)
    return matrix if right is None else product(matrix, right.directions.T)
