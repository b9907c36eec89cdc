"""The Dynamic Kanerva Machine: codes are mixtures of the rows of a random matrix, and writing infers that matrix."""

import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..interface import AbstractMemoryModel, Domain, Readout, as_domain
from .codec import AbstractCodec, clamp, codec_for, cross_entropy

Mean = Float[Array, "slots code"]
Weights = Float[Array, " slots"]
# Accelerators round float32 products by default, and covariances and Gram matrices so rounded stop being positive.
exactly = partial(jnp.matmul, precision="highest")


class Belief(eqx.Module):
    """What is believed of the memory: its columns are independent Gaussians with these means and one covariance."""

    mean: Mean
    covariance: Float[Array, "slots slots"]


def addressing(mean: Mean, code: Float[Array, " code"], penalty: Float[Array, ""]) -> Weights:
    """The weights w that mix the rows into the code best: the least of ‖z − wᵀR‖² + penalty ‖w‖²."""
    gram = exactly(mean, mean.T) + penalty * jnp.eye(len(mean))
    return jax.scipy.linalg.solve(gram, exactly(mean, code), assume_a="pos")


def observed(
    belief: Belief, weights: Weights, code: Float[Array, " code"], noise: Float[Array, ""]
) -> tuple[Belief, Float[Array, ""]]:
    """Bayes' rule for one code z = wᵀM + noise of this variance, and the variance predicted for each of its entries.

    The covariance of memory and code is c = U w, the code's own variance s = wᵀU w + noise; then R grows by
    c (z − wᵀR)ᵀ / s and U shrinks by c cᵀ / s.
    """
    shared = exactly(belief.covariance, weights)
    predicted = exactly(weights, shared) + noise
    mean = belief.mean + jnp.outer(shared / predicted, code - exactly(weights, belief.mean))
    return Belief(mean, belief.covariance - jnp.outer(shared, shared) / predicted), predicted


class KanervaMachine(AbstractMemoryModel):
    """Wu and others (2018), "Learning Attractor Dynamics for Generative Memory".

    A pattern is decoded from z = wᵀM, with w ~ N(0, I) and a memory M of K slots whose prior is a Gaussian with
    learned mean, one learned variance and independent entries. Writing takes one code after the other: weights by
    least squares, then Bayes' rule. Reading encodes, projects on what the memory spans, decodes, and starts again
    from the result, `read_steps` times: the attractor dynamics. Training maximises the likelihood of the undamaged
    patterns and never sees a query.
    """

    codec: AbstractCodec
    prior_mean: Mean
    log_prior_scale: Float[Array, ""]
    log_noise: Float[Array, ""]
    log_spread: Float[Array, ""]
    """Logarithms of standard deviations: of the memory before writing, of a code, and of the weights given a code."""
    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)
    slots: int = eqx.field(static=True)
    code: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)
    read_steps: int = eqx.field(static=True)
    divergence_weight: float = eqx.field(static=True)

    def __init__(
        self,
        pattern_shape: tuple[int, ...],
        *,
        domain: Domain = (0.0, 1.0),
        slots: int = 32,
        code: int = 256,
        channels: int = 32,
        read_steps: int = 10,
        divergence_weight: float = 1.0,
        key: PRNGKeyArray,
    ):
        """`divergence_weight` multiplies both divergences in the loss: 1 is the bound itself, less lets the memory
        hold more than the bound would pay for, which early in training is nothing.
        """
        if min(slots, code, channels, read_steps) < 1:
            raise ValueError(
                f"got {slots} slots, code {code}, {channels} channels and {read_steps} read steps; expected at least 1."
            )
        if not 0 <= divergence_weight < math.inf:
            raise ValueError(f"divergence_weight: got {divergence_weight}; expected a number from 0, usually 1.")
        codec_key, mean_key = jax.random.split(key)
        self.codec = codec_for(pattern_shape, domain, code=code, channels=channels, key=codec_key)
        self.prior_mean = jax.random.normal(mean_key, (slots, self.codec.code))
        self.log_prior_scale = jnp.zeros(())
        self.log_noise = jnp.zeros(())
        self.log_spread = jnp.log(jnp.asarray(0.3))
        self.pattern_shape, self.domain = tuple(pattern_shape), as_domain(domain)
        self.slots, self.code, self.channels, self.read_steps = slots, code, channels, read_steps
        self.divergence_weight = divergence_weight

    @property
    def memory_size(self) -> int:
        """The mean, and the covariance with each pair of slots once: it depends on the codes by their weights."""
        return self.slots * self.codec.code + self.slots * (self.slots + 1) // 2

    @property
    def initial_state(self) -> Belief:
        return Belief(self.prior_mean, jnp.exp(2 * self.log_prior_scale) * jnp.eye(self.slots))

    def write(self, patterns: Float[Array, "n *pattern"], *, key: PRNGKeyArray | None = None) -> Belief:
        return self._write_codes(jax.vmap(self.codec.encode)(patterns))[0]

    def read(
        self,
        state: Belief,
        queries: Float[Array, "n *pattern"],
        *,
        known: Bool[Array, "n *pattern"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Readout:
        def step(patterns: Array, _: None) -> tuple[Array, Array]:
            patterns = clamp(jax.vmap(lambda x: self._projected(state, x))(patterns), queries, known)
            return patterns, patterns

        recalled, trajectory = jax.lax.scan(step, queries, length=self.read_steps)
        visited = jnp.concatenate([queries[None], trajectory])
        return Readout(recalled, trajectory, jax.vmap(lambda patterns: self.energies(state, patterns))(visited))

    def energies(self, state: Belief, patterns: Float[Array, "n *pattern"]) -> Float[Array, " n"]:
        """−log p(x | w, M) − log p(w) at the memory's mean and the pattern's own weights, up to a constant."""

        def energy(pattern: Array) -> Array:
            weights = self._weights(state, self.codec.encode(pattern))
            return self._cost(pattern, weights @ state.mean) + jnp.sum(weights**2) / 2

        return jax.vmap(energy)(patterns)

    def loss(
        self,
        patterns: Float[Array, "n *pattern"],
        queries: Float[Array, "copies_of_n *pattern"],
        *,
        known: Bool[Array, "copies_of_n *pattern"] | None = None,
        key: PRNGKeyArray | None = None,
        last_steps: int | None = None,
    ) -> tuple[Float[Array, ""], Float[Array, "copies_of_n *pattern"]]:
        """Minus the lower bound on the likelihood of the undamaged patterns, and minus that of the plain
        auto-encoder, which keeps codes worth storing; for each pattern. Recalled is the first step of a read.
        """
        key = jax.random.key(0) if key is None else key
        codes = jax.vmap(self.codec.encode)(patterns)
        belief, divergence = self._write_codes(codes)

        def of_one(pattern: Array, code: Array, key: PRNGKeyArray) -> Array:
            weights = self._weights(belief, code)
            drawn = weights + jnp.exp(self.log_spread) * jax.random.normal(key, weights.shape)
            read = self._cost(pattern, drawn @ belief.mean)
            divergence = weights_divergence(weights, self.log_spread)
            return read + self._cost(pattern, code) + self.divergence_weight * divergence

        costs = jax.vmap(of_one)(patterns, codes, jax.random.split(key, len(patterns)))
        recalled = jax.vmap(lambda query: self._projected(belief, query))(queries)
        loss = jnp.mean(costs) + self.divergence_weight * divergence / len(patterns)
        return loss, clamp(recalled, queries, known)

    def _write_codes(self, codes: Float[Array, "n code"]) -> tuple[Belief, Float[Array, ""]]:
        """The belief after all codes, and its Kullback-Leibler divergence from the one before."""
        noise = jnp.exp(2 * self.log_noise)
        start = self.initial_state

        def add(belief: Belief, code: Array) -> tuple[Belief, Array]:
            belief, predicted = observed(belief, self._weights(belief, code), code, noise)
            return belief, jnp.log(noise / predicted)  # by how much the covariance's log determinant falls

        belief, log_ratios = jax.lax.scan(add, start, codes)
        return belief, memory_divergence(belief, start.mean, jnp.exp(2 * self.log_prior_scale), jnp.sum(log_ratios))

    def _weights(self, belief: Belief, code: Float[Array, " code"]) -> Weights:
        return addressing(belief.mean, code, jnp.exp(2 * self.log_noise))  # noise over the weights' variance of 1

    def _projected(self, belief: Belief, pattern: Float[Array, "*pattern"]) -> Float[Array, "*pattern"]:
        return self.codec.decode(self._weights(belief, self.codec.encode(pattern)) @ belief.mean)

    def _cost(self, pattern: Float[Array, "*pattern"], code: Float[Array, " code"]) -> Float[Array, ""]:
        return jnp.sum(cross_entropy(self.codec.decode_logits(code), pattern, self.domain))


def weights_divergence(mean: Weights, log_spread: Float[Array, ""]) -> Float[Array, ""]:
    """KL of N(mean, spread² I) from N(0, I)."""
    return jnp.sum(mean**2 + jnp.exp(2 * log_spread) - 1 - 2 * log_spread) / 2


def memory_divergence(
    belief: Belief, prior_mean: Mean, prior_variance: Float[Array, ""], log_ratio: Float[Array, ""]
) -> Float[Array, ""]:
    """KL of the belief from the prior with this mean and variance; log det U − log det U₀ is known from writing."""
    slots, code = belief.mean.shape
    covariances = jnp.trace(belief.covariance) / prior_variance - slots - log_ratio
    return (code * covariances + jnp.sum((belief.mean - prior_mean) ** 2) / prior_variance) / 2
