"""The denoising auto-encoder: what a good idea of the patterns is worth without any memory of them."""

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..interface import AbstractMemoryModel, Domain, Readout, as_domain
from .codec import AbstractCodec, clamp, codec_for


class AutoEncoder(AbstractMemoryModel):
    """The shared encoder and decoder with a bottleneck of `code` units, from the query straight to the pattern.

    It stores nothing. It is trained as the paper says, on the squared error of what is read: the interface's own
    loss, with a single read step.
    """

    codec: AbstractCodec
    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)
    code: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)

    def __init__(
        self,
        pattern_shape: tuple[int, ...],
        *,
        domain: Domain = (0.0, 1.0),
        code: int = 256,
        channels: int = 32,
        hidden: int = 512,
        key: PRNGKeyArray,
    ):
        """`channels` is for images, `hidden` for strings."""
        self.codec = codec_for(pattern_shape, domain, code=code, channels=channels, hidden=hidden, key=key)
        self.pattern_shape, self.domain = tuple(pattern_shape), as_domain(domain)
        self.code, self.channels, self.hidden = code, channels, hidden

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
        recalled = jax.vmap(lambda query: self.codec.decode(self.codec.encode(query)))(queries)
        recalled = clamp(recalled, queries, known)
        return Readout(recalled, recalled[None], None)

    def energies(self, state: tuple[()], patterns: Float[Array, "n *pattern"]) -> None:
        return None
