"""Convolution as a matrix product over patches, with all its derivatives of the same form.

A convolution is linear in the image and in the kernel. So are its two derivatives, and the derivatives of those are
again among the three:

    convolve       [image, kernel]  -> output
    image_of       [output, kernel] -> image     the transpose of `convolve` in the image
    kernel_of      [image, output]  -> kernel    the transpose of `convolve` in the kernel

Told this once, JAX differentiates to any order without ever transposing the gathering of patches. That would give nine
shifted arrays to add up, which XLA repeats inside everything that reads the sum; here each derivative gathers patches
and multiplies once.

Patches of a 3×3 kernel are nine times the image. Where all images have one kernel in common, XLA's own convolution can
do without them (`shared="xla"`); where every episode has its own, as a memory that is written to, it is slow.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float


def windows(images: Float[Array, "*n h w c"], size: int, stride: int) -> list[Float[Array, "*n h2 w2 c"]]:
    """What each of the size×size entries of a kernel sees, for an output of 1/stride the height and width.

    Zeros are padded as TensorFlow's "SAME" does: where the number is odd, one more at the end.
    """
    counts = [-(-length // stride) for length in images.shape[-3:-1]]
    before = [_padding(length, size, stride) for length in images.shape[-3:-1]]
    return _windows(images, size, stride, before, counts)


def _padding(length: int, size: int, stride: int) -> int:
    """Zeros before the first pixel."""
    span = (-(-length // stride) - 1) * stride + size
    return max(span - length, 0) // 2


def _windows(images: Array, size: int, stride: int, before: list[int], counts: list[int]) -> list[Array]:
    spans = [(count - 1) * stride + 1 for count in counts]
    after = [
        max(span + size - 1 - low - length, 0)
        for span, low, length in zip(spans, before, images.shape[-3:-1], strict=True)
    ]
    pads = [(0, 0)] * (images.ndim - 3) + [*zip(before, after, strict=True), (0, 0)]
    padded = jnp.pad(images, pads)
    return [
        padded[..., row : row + spans[0] : stride, column : column + spans[1] : stride, :]
        for row in range(size)
        for column in range(size)
    ]


def _convolve(images: Array, kernel: Array, *, stride: int) -> Array:
    return jnp.concatenate(windows(images, kernel.shape[0], stride), -1) @ kernel.reshape(-1, kernel.shape[-1])


def _image_of(outputs: Array, kernel: Array, *, stride: int, shape: tuple[int, int]) -> Array:
    """A pixel is reached from the outputs whose windows hold it: every stride-th entry of the kernel, beginning with
    the pixel's remainder. The pixels of one remainder are themselves a convolution of the outputs; all are done at once
    and then interleaved.
    """
    size, _, channels, _ = kernel.shape
    taps = -(-size // stride)
    grown = jnp.pad(kernel, [(0, taps * stride - size)] * 2 + [(0, 0)] * 2)
    parts = grown.reshape(taps, stride, taps, stride, channels, -1)[::-1, :, ::-1]
    matrix = jnp.transpose(parts, (0, 2, 5, 1, 3, 4)).reshape(-1, stride**2 * channels)

    paddings = [_padding(length, size, stride) for length in shape]
    firsts = [padding // stride for padding in paddings]
    skipped = [padding % stride for padding in paddings]
    counts = [-(-(skip + length) // stride) for skip, length in zip(skipped, shape, strict=True)]
    # Output m − t of tap t reaches the pixels of group m; the groups begin with `first`.
    low = [taps - 1 - first for first in firsts]
    moved = outputs[..., max(-low[0], 0) :, max(-low[1], 0) :, :]
    seen = _windows(moved, taps, 1, [max(each, 0) for each in low], counts)
    groups = jnp.concatenate(seen, -1) @ matrix
    groups = groups.reshape(*groups.shape[:-1], stride, stride, channels)
    lead = tuple(range(groups.ndim - 5))
    rows, columns, row, column, channel = range(groups.ndim - 5, groups.ndim)
    pixels = jnp.transpose(groups, (*lead, rows, row, columns, column, channel))
    pixels = pixels.reshape(*groups.shape[:-5], counts[0] * stride, counts[1] * stride, channels)
    return pixels[..., skipped[0] : skipped[0] + shape[0], skipped[1] : skipped[1] + shape[1], :]


def _kernel_of(images: Array, outputs: Array, *, stride: int, size: int) -> Array:
    patches = jnp.concatenate(windows(images, size, stride), -1)
    matrix = patches.reshape(-1, patches.shape[-1]).T @ outputs.reshape(-1, outputs.shape[-1])
    return matrix.reshape(size, size, images.shape[-1], outputs.shape[-1])


Shared = Literal["patches", "xla"]
"""How to convolve images that have their kernel in common."""
WORTHWHILE = 16  # channels on both sides; patches of fewer are small, and XLA's convolutions of them slow


def convolve_xla(images: Array, kernel: Array, stride: int) -> Array:
    """XLA's own: all images in one call, whatever axes they have."""
    layout = ("NHWC", "HWIO", "NHWC")
    flat = images.reshape(-1, *images.shape[-3:])
    result = jax.lax.conv_general_dilated(flat, kernel, (stride, stride), "SAME", dimension_numbers=layout)
    return result.reshape(*images.shape[:-3], *result.shape[1:])


def _image_of_xla(outputs: Array, kernel: Array, *, stride: int, shape: tuple[int, int]) -> Array:
    images = jax.ShapeDtypeStruct((*outputs.shape[:-3], *shape, kernel.shape[2]), outputs.dtype)
    return jax.linear_transpose(lambda i: convolve_xla(i, kernel, stride), images)(outputs)[0]


def _kernel_of_xla(images: Array, outputs: Array, *, stride: int, size: int) -> Array:
    kernel = jax.ShapeDtypeStruct((size, size, images.shape[-1], outputs.shape[-1]), images.dtype)
    return jax.linear_transpose(lambda k: convolve_xla(images, k, stride), kernel)(outputs)[0]


def _repeated(compute: Callable[..., Array], paired: int) -> Callable[..., Array]:
    return compute if paired == 0 else jax.vmap(_repeated(compute, paired - 1))


def _primitive(
    name: str, compute: Callable[..., Array], by_xla: Callable[..., Array], *, many_images: bool
) -> Primitive:
    """A primitive whose arguments and result begin with `paired` axes that belong together, such as one for episodes
    with kernels of their own. Behind these, images may have further axes; `many_images` says that the first argument
    and the result are images and the second is a kernel: if that is common, a new axis is just one more of those.
    """
    primitive = Primitive(name)

    def implementation(*arguments: Array, paired: int, shared: Shared, **settings: Any) -> Array:
        first, second = (argument.shape for argument in arguments)
        size, *channels = (second[-4], *second[-2:]) if many_images else (settings["size"], first[-1], second[-1])
        if shared == "xla" and paired == 0 and size > 1 and min(channels) >= WORTHWHILE:
            return by_xla(*arguments, **settings)
        return _repeated(partial(compute, **settings), paired)(*arguments)

    @cache
    def compiled(settings: tuple[tuple[str, Any], ...]) -> Callable[..., Array]:
        return jax.jit(partial(implementation, **dict(settings)))

    @cache  # an update has hundreds of convolutions of few shapes: a fifth of the time to trace it
    def found(structs: tuple[jax.ShapeDtypeStruct, ...], settings: tuple[tuple[str, Any], ...]) -> Any:
        return jax.eval_shape(partial(implementation, **dict(settings)), *structs)

    def shape_of(*arguments: Any, **settings: Any) -> Any:
        structs = tuple(jax.ShapeDtypeStruct(argument.shape, argument.dtype) for argument in arguments)
        result = found(structs, tuple(settings.items()))
        return ShapedArray(result.shape, result.dtype)

    def batch(arguments: Any, axes: Any, *, paired: int, **settings: Any) -> tuple[Array, int]:
        first, second = arguments
        if many_images and axes[1] is None:
            return primitive.bind(jnp.moveaxis(first, axes[0], paired), second, paired=paired, **settings), paired
        length = next(a.shape[axis] for a, axis in zip(arguments, axes, strict=True) if axis is not None)
        moved = [
            jnp.broadcast_to(a, (length, *a.shape)) if axis is None else jnp.moveaxis(a, axis, 0)
            for a, axis in zip(arguments, axes, strict=True)
        ]
        return primitive.bind(*moved, paired=paired + 1, **settings), 0

    primitive.def_abstract_eval(shape_of)
    primitive.def_impl(lambda *arguments, **settings: compiled(tuple(settings.items()))(*arguments))
    mlir.register_lowering(primitive, mlir.lower_fun(implementation, multiple_results=False))
    batching.primitive_batchers[primitive] = batch
    return primitive


convolve_p = _primitive("convolve", _convolve, convolve_xla, many_images=True)
image_of_p = _primitive("image_of", _image_of, _image_of_xla, many_images=True)
kernel_of_p = _primitive("kernel_of", _kernel_of, _kernel_of_xla, many_images=False)
PRIMITIVES = (convolve_p, image_of_p, kernel_of_p)


# A rule gets the cotangent and both arguments; the one that it is for stands for its shape alone.
ad.defbilinear(
    convolve_p,
    lambda cotangent, images, kernel, **same: image_of_p.bind(cotangent, kernel, shape=_height_width(images), **same),
    lambda cotangent, images, kernel, **same: kernel_of_p.bind(images, cotangent, size=_size(kernel), **same),
)
ad.defbilinear(
    image_of_p,
    lambda cotangent, outputs, kernel, *, shape, **same: convolve_p.bind(cotangent, kernel, **same),
    lambda cotangent, outputs, kernel, *, shape, **same: kernel_of_p.bind(
        cotangent, outputs, size=_size(kernel), **same
    ),
)
ad.defbilinear(
    kernel_of_p,
    lambda cotangent, images, outputs, *, size, **same: image_of_p.bind(
        outputs, cotangent, shape=_height_width(images), **same
    ),
    lambda cotangent, images, outputs, *, size, **same: convolve_p.bind(images, cotangent, **same),
)


def _height_width(images: Any) -> tuple[int, int]:
    return tuple(images.aval.shape[-3:-1])


def _size(kernel: Any) -> int:
    return kernel.aval.shape[-4]


def convolve(
    images: Float[Array, "*n h w inputs"],
    kernel: Float[Array, "size size inputs outputs"],
    stride: int = 1,
    *,
    shared: Shared = "patches",
) -> Float[Array, "*n h2 w2 outputs"]:
    """A square convolution, padded with zeros so that a stride of 1 keeps height and width."""
    return convolve_p.bind(images, kernel, stride=stride, paired=0, shared=shared)
