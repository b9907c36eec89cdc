"""SOAP: Adam in the directions that the gradients of a matrix are made of (Vyas et al. 2024, arXiv:2409.11321).

The gradients of one weight matrix differ by orders of magnitude from direction to direction, and the longest are those
that bear the shortest steps. Adam sees single weights, over which every such direction is spread, and Muon steps
equally far along all singular directions, the longest too. Here the gradient G is turned into the eigenvectors of the
running means of G Gᵀ and Gᵀ G first, where each number is nearly a direction of its own, and Adam does the rest.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

product = partial(jnp.matmul, precision="highest")  # TF32 would leave the bases far from orthogonal


class Basis(NamedTuple):
    """One side of a matrix: what its gradients look like, and the directions to see them in."""

    moment: Float[Array, "size size"]
    directions: Float[Array, "size size"]

    @classmethod
    def plain(cls, size: int, dtype: Any) -> "Basis":
        return cls(jnp.zeros((size, size), dtype), jnp.eye(size, dtype=dtype))

    def seen(self, moment: Float[Array, "size size"], decay: float) -> "Basis":
        return Basis(decay * self.moment + (1 - decay) * moment, self.directions)

    def turned(self) -> "Basis":
        """With one step of orthogonal iteration towards the eigenvectors of the moment, the largest first."""
        return Basis(self.moment, jnp.linalg.qr(product(self.moment, self.directions))[0])


class Moments(NamedTuple):
    """What is remembered of one parameter's gradients."""

    mean: Array
    """In the parameter's own shape, so that it outlives a change of basis."""
    square: Array
    """In the two bases, if there are any."""
    bases: tuple[Basis, Basis] | None


class SoapState(NamedTuple):
    steps: Int[Array, ""]
    moments: PyTree


def scale_by_soap(
    is_matrix: Callable[[PyTree], PyTree],
    *,
    mean_decay: float = 0.95,
    square_decay: float = 0.99,
    epsilon: float = 1e-8,
    every: int = 10,
) -> optax.GradientTransformation:
    """Adam for all parameters; for those that `is_matrix` marks, in bases that are renewed after every so many updates.

    A convolution's kernel is a matrix of all that it reads by all that it gives.
    """

    def init(params: PyTree) -> SoapState:
        def moments(parameter: Array, marked: bool) -> Moments:
            if not marked:
                return Moments(jnp.zeros_like(parameter), jnp.zeros_like(parameter), None)
            matrix = as_matrix(parameter)
            bases = (Basis.plain(matrix.shape[0], matrix.dtype), Basis.plain(matrix.shape[1], matrix.dtype))
            return Moments(jnp.zeros_like(parameter), jnp.zeros_like(matrix), bases)

        return SoapState(jnp.array(0, jnp.int32), jax.tree.map(moments, params, is_matrix(params)))

    def update(updates: PyTree, state: Any, params: PyTree = None) -> tuple[PyTree, SoapState]:
        steps = state.steps + 1
        unbiased_mean, unbiased_square = 1 - mean_decay**steps, 1 - square_decay**steps
        is_due = (steps % every == 0) | (steps < every)

        def step(gradient: Array, before: Moments) -> tuple[Array, Moments]:
            mean = mean_decay * before.mean + (1 - mean_decay) * gradient
            seen = turned_into(before.bases, gradient)
            square = square_decay * before.square + (1 - square_decay) * seen**2
            scale = jnp.sqrt(square / unbiased_square) + epsilon
            change = turned_back(before.bases, turned_into(before.bases, mean) / unbiased_mean / scale, gradient.shape)
            return change, Moments(mean, square, renewed(before.bases, gradient))

        def renewed(bases: tuple[Basis, Basis] | None, gradient: Array) -> tuple[Basis, Basis] | None:
            if bases is None:
                return None
            matrix, (left, right) = as_matrix(gradient), bases
            bases = (
                left.seen(product(matrix, matrix.T), square_decay),
                right.seen(product(matrix.T, matrix), square_decay),
            )
            return jax.lax.cond(is_due, lambda both: (both[0].turned(), both[1].turned()), lambda both: both, bases)

        leaves, structure = jax.tree.flatten(updates)
        pairs = [step(*each) for each in zip(leaves, structure.flatten_up_to(state.moments), strict=True)]
        changes, moments = (structure.unflatten(each) for each in zip(*pairs, strict=True))
        return changes, SoapState(steps, moments)

    return optax.GradientTransformation(init, update)


def as_matrix(array: Array) -> Float[Array, "rows columns"]:
    return array.reshape(-1, array.shape[-1])


def turned_into(bases: tuple[Basis, Basis] | None, array: Array) -> Array:
    if bases is None:
        return array
    left, right = bases
    return product(product(left.directions.T, as_matrix(array)), right.directions)


def turned_back(bases: tuple[Basis, Basis] | None, array: Array, shape: tuple[int, ...]) -> Array:
    if bases is None:
        return array
    left, right = bases
    return product(product(left.directions, array), right.directions.T).reshape(shape)
