"""Drawing without repeats, at a cost that does not grow with the size of the set."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray


def distinct(count: int, size: int, *, key: PRNGKeyArray) -> Int[Array, " count"]:
    """So many different numbers below `size`, every ordered choice equally likely.

    Candidates are drawn with repeats, more than twice as many as are asked for, and the first different ones
    taken. With `size` at least eight times the candidates, too few of them differ with a chance below 1e-30;
    a smaller set is shuffled instead.
    """
    if not 0 < count <= size:
        raise ValueError(f"got {count} to draw from {size} without repeats; expected 1 to {size}.")
    candidates = 2 * count + 16
    if size < 8 * candidates:
        return jax.random.permutation(key, size)[:count]
    drawn = jax.random.randint(key, (candidates,), 0, size)
    same = drawn[:, None] == drawn[None, :]
    repeated = jnp.any(jnp.tril(same, -1), axis=1)
    return drawn[jnp.argsort(repeated, stable=True)[:count]]
