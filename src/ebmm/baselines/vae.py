"""The variational auto-encoder: a generative model of single patterns, read by sliding down its own energy."""

import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..interface import AbstractMemoryModel, Domain, Readout, as_domain
from ..layers import he_linear
from .codec import AbstractCodec, clamp, codec_for, cross_entropy

Latents = Float[Array, " latents"]


def divergence(mean: Latents, log_scale: Latents) -> Float[Array, ""]:
    """KL of the Gaussian with this mean and these scales from the standard one."""
    return jnp.sum(mean**2 + jnp.exp(2 * log_scale) - 1 - 2 * log_scale) / 2


class VAE(AbstractMemoryModel):
    """Gaussian latents z, Bernoulli likelihood, and the energy E(x, z) = −log N(z | 0, I) − log p(x | z).

    It stores nothing. A read starts at the query x and the encoder's mean z and takes `read_steps` turns: one
    gradient step of size `read_rate` on z, then the x of least energy given z. The energy is linear in x, so that
    x is an end of the domain in every dimension, whatever the patterns are: grey values are lost, as in the paper.
    Known dimensions stay at the query's values. Training maximises the likelihood of the undamaged patterns and
    never sees a query.
    """

    codec: AbstractCodec
    posterior: eqx.nn.Linear
    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)
    latents: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    read_steps: int = eqx.field(static=True)
    read_rate: float | Array
    """A number, or an array where one compiled read serves many rates."""

    def __init__(
        self,
        pattern_shape: tuple[int, ...],
        *,
        domain: Domain = (0.0, 1.0),
        latents: int = 256,
        channels: int = 32,
        hidden: int = 512,
        read_steps: int = 50,
        read_rate: float = 0.01,
        key: PRNGKeyArray,
    ):
        """`channels` is for images, `hidden` for strings. The paper takes 50 read steps for Omniglot, 100 for CIFAR
        and 200 for ImageNet, each with the best rate of a grid.
        """
        if domain is None:
            raise ValueError("domain: got None; a Bernoulli likelihood needs two ends: give (low, high).")
        if min(latents, channels, hidden, read_steps) < 1 or not 0 < read_rate < math.inf:
            raise ValueError(
                f"got {latents} latents, {channels} channels, {hidden} hidden units, {read_steps} read steps and read "
                f"rate {read_rate}; expected counts of at least 1 and a positive rate."
            )
        codec_key, posterior_key = jax.random.split(key)
        self.codec = codec_for(pattern_shape, domain, code=latents, channels=channels, hidden=hidden, key=codec_key)
        posterior = he_linear(self.codec.code, 2 * latents, key=posterior_key)
        # A tenth of He's weights: q(z | x) starts near the prior, not thousands of nats away from it.
        self.posterior = eqx.tree_at(lambda linear: linear.weight, posterior, 0.1 * posterior.weight)
        self.pattern_shape, self.domain = tuple(pattern_shape), as_domain(domain)
        self.latents, self.channels, self.hidden = latents, channels, hidden
        self.read_steps, self.read_rate = read_steps, read_rate

    @property
    def memory_size(self) -> int:
        return 0

    @property
    def initial_state(self) -> tuple[()]:
        return ()

    def write(self, patterns: Float[Array, "n *pattern"], *, key: PRNGKeyArray | None = None) -> tuple[()]:
        return ()

    def read(
        self,
        state: tuple[()],
        queries: Float[Array, "n *pattern"],
        *,
        known: Bool[Array, "n *pattern"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Readout:
        def step(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
            patterns, latents = carry
            latents = latents - self.read_rate * jax.vmap(jax.grad(self.energy, argnums=1))(patterns, latents)
            patterns = clamp(jax.vmap(self._likeliest)(latents), queries, known)
            return (patterns, latents), (patterns, jax.vmap(self.energy)(patterns, latents))

        latents = jax.vmap(lambda query: self.encode(query)[0])(queries)
        first = jax.vmap(self.energy)(queries, latents)
        _, (trajectory, energies) = jax.lax.scan(step, (queries, latents), length=self.read_steps)
        return Readout(trajectory[-1], trajectory, jnp.concatenate([first[None], energies]))

    def energies(self, state: tuple[()], patterns: Float[Array, "n *pattern"]) -> Float[Array, " n"]:
        """E(x, z) at the encoder's mean z."""
        return jax.vmap(lambda pattern: self.energy(pattern, self.encode(pattern)[0]))(patterns)

    def loss(
        self,
        patterns: Float[Array, "n *pattern"],
        queries: Float[Array, "copies_of_n *pattern"],
        *,
        known: Bool[Array, "copies_of_n *pattern"] | None = None,
        key: PRNGKeyArray | None = None,
        last_steps: int | None = None,
    ) -> tuple[Float[Array, ""], Float[Array, "copies_of_n *pattern"]]:
        """Minus the lower bound on the likelihood of the undamaged patterns, with one sample each.

        Recalled is what the decoder makes of the queries' means: a read of no steps, and cheap.
        """
        key = jax.random.key(0) if key is None else key

        def bound(pattern: Array, key: PRNGKeyArray) -> Array:
            mean, log_scale = self.encode(pattern)
            latents = mean + jnp.exp(log_scale) * jax.random.normal(key, mean.shape)
            return self.cost(pattern, latents) + divergence(mean, log_scale)

        costs = jax.vmap(bound)(patterns, jax.random.split(key, len(patterns)))
        recalled = jax.vmap(lambda query: self.codec.decode(self.encode(query)[0]))(queries)
        return jnp.mean(costs), clamp(recalled, queries, known)

    def read_with(self, *, steps: int, rate: float) -> "VAE":
        """The same network, read in so many steps of this size."""
        settings = {"latents": self.latents, "channels": self.channels, "hidden": self.hidden}
        make = partial(VAE, self.pattern_shape, domain=self.domain, **settings, read_steps=steps, read_rate=rate)
        other = eqx.filter_eval_shape(make, key=jax.random.key(0))
        return eqx.tree_at(lambda model: (model.codec, model.posterior), other, (self.codec, self.posterior))

    def encode(self, pattern: Float[Array, "*pattern"]) -> tuple[Latents, Latents]:
        """The mean of q(z | x), and the logarithm of its standard deviations."""
        mean, log_scale = jnp.split(self.posterior(self.codec.encode(pattern)), 2)
        return mean, log_scale

    def cost(self, pattern: Float[Array, "*pattern"], latents: Latents) -> Float[Array, ""]:
        """−log p(x | z)."""
        return jnp.sum(cross_entropy(self.codec.decode_logits(latents), pattern, self.domain))

    def energy(self, pattern: Float[Array, "*pattern"], latents: Latents) -> Float[Array, ""]:
        prior = jnp.sum(latents**2) / 2 + self.latents * math.log(2 * math.pi) / 2
        return prior + self.cost(pattern, latents)

    def _likeliest(self, latents: Latents) -> Float[Array, "*pattern"]:
        assert self.domain is not None  # refused when the model was made
        low, high = self.domain
        return jnp.where(self.codec.decode_logits(latents) > 0, high, low)
