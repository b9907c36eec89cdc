"""More drawings from the same drawings: flips, quarter turns, shifts and small affine changes, on the accelerator."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..interface import Domain
from .images import AbstractPatterns, Images

SHIFT = 2  # pixels
SCALE = 0.15
SHEAR = 0.2
TURN = 0.25  # radians


class Augmented(AbstractPatterns):
    """Square images, each changed at random when it is drawn; bits stay bits."""

    images: Images
    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)

    def __init__(self, images: Images):
        if images.pattern_shape[0] != images.pattern_shape[1]:
            raise ValueError(f"augmentation: got images of shape {images.pattern_shape}; expected square ones.")
        self.images = images
        self.pattern_shape, self.domain = images.pattern_shape, images.domain

    def draw(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "count *pattern"]:
        draw_key, change_key = jax.random.split(key)
        images = self.images.draw(count, key=draw_key)
        changed = jax.vmap(changed_image)(images, jax.random.split(change_key, count))
        return (changed > 0.5).astype(images.dtype) if self.images.levels == 1 else changed


def changed_image(image: Float[Array, "side side channels"], key: PRNGKeyArray) -> Float[Array, "side side channels"]:
    """One image under a random affine map; what comes from outside is 0, as paper is."""
    side = image.shape[0]
    keys = jax.random.split(key, 5)
    flip = jnp.where(jax.random.bernoulli(keys[0], 0.5), -1.0, 1.0)
    quarters = jax.random.randint(keys[1], (), 0, 4)
    bent = jax.random.bernoulli(keys[3], 0.5)  # the other half stays as crisp as it is
    small = jax.random.uniform(keys[2], (4,), minval=-1.0) * jnp.array([SCALE, SCALE, SHEAR, TURN])
    wide, high, shear, turn = small * bent
    angle = jnp.pi / 2 * quarters + turn
    rotation = jnp.array([[jnp.cos(angle), -jnp.sin(angle)], [jnp.sin(angle), jnp.cos(angle)]])
    matrix = rotation @ jnp.array([[flip * (1 + wide), shear], [0.0, 1 + high]])
    shift = jax.random.randint(keys[4], (2,), -SHIFT, SHIFT + 1)
    middle = (side - 1) / 2
    grid = jnp.stack(jnp.meshgrid(jnp.arange(side), jnp.arange(side), indexing="ij")).reshape(2, -1) - middle
    places = matrix @ grid + shift[:, None] + middle

    def sampled(channel: Float[Array, "side side"]) -> Float[Array, "side side"]:
        values = jax.scipy.ndimage.map_coordinates(channel, list(places), order=1, cval=0.0)
        return values.reshape(side, side)

    return jax.vmap(sampled, in_axes=-1, out_axes=-1)(image)
