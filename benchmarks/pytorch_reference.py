"""The same model in plain PyTorch: an independent second opinion on the mathematics, and something to be faster than.

Everything is a function of one dict of tensors, named as `ebmm.files.named_arrays(model)` names a model's arrays, so
that both start from the same values. `benchmarks/against_pytorch.py` compares the two.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # pyright: ignore[reportMissingImports]

Tensor = Any  # torch.Tensor, which a type checker knows only where torch is installed
Tensors = dict[str, Tensor]
Energy = Callable[[Tensors, Tensor], Tensor]
"""The energy of each pattern of a batch."""


def as_tensors(arrays: dict[str, np.ndarray], device: str = "cpu") -> Tensors:
    return {name: torch.tensor(array, device=device, requires_grad=True) for name, array in arrays.items()}


def linear(tensors: Tensors, name: str, x: Tensor) -> Tensor:
    return F.linear(x, tensors[f"{name}.weight"], tensors[f"{name}.bias"])


def same_padding(images: Tensor, size: int, stride: int) -> Tensor:
    """Zeros as TensorFlow's "SAME" pads them: where the number is odd, one more at the end."""
    missing = [max((-(-length // stride) - 1) * stride + size - length, 0) for length in images.shape[2:]]
    (top, left), (height, width) = (m // 2 for m in missing), missing
    return F.pad(images, (left, width - left, top, height - top)) if height or width else images


def convolve(images: Tensor, kernel: Tensor, bias: Tensor | None = None, stride: int = 1) -> Tensor:
    """Images are [n, channels, height, width] here; kernels keep ebmm's [size, size, inputs, outputs]."""
    kernel = kernel.permute(3, 2, 0, 1).contiguous()  # some of PyTorch's kernels refuse the derivative otherwise
    return F.conv2d(same_padding(images, kernel.shape[2], stride), kernel, bias, stride)


def convolution(tensors: Tensors, name: str, images: Tensor, stride: int = 1) -> Tensor:
    return convolve(images, tensors[f"{name}.kernel"], tensors[f"{name}.bias"], stride)


def memory_convolution(tensors: Tensors, name: str, images: Tensor, stride: int) -> Tensor:
    return torch.cat([convolution(tensors, f"{name}.{part}", images, stride) for part in ("static", "memory")], 1)


def average_pool(images: Tensor, size: int = 3, stride: int = 2) -> Tensor:
    def sums(images: Tensor) -> Tensor:
        return F.avg_pool2d(same_padding(images, size, stride), size, stride, divisor_override=1)

    return sums(images) / sums(torch.ones_like(images[:1, :1]))


def layer_norm(tensors: Tensors, name: str, images: Tensor) -> Tensor:
    # By hand: the third-order derivatives of PyTorch's fused layer norm are wrong, and nothing says so.
    centred = images - images.mean((1, 2, 3), keepdim=True)
    normal = centred * torch.rsqrt((centred**2).mean((1, 2, 3), keepdim=True) + 1e-5)
    return normal * tensors[f"{name}.scale"][:, None, None] + tensors[f"{name}.offset"][:, None, None]


def gated_rnn(tensors: Tensors, strings: Tensor, *, hops: int = 5) -> Tensor:
    bits, hidden = strings.shape[1], len(tensors["energy.gate.bias"])
    weight = torch.cat([tensors["energy.static.weight"], tensors["energy.gate.weight"]])
    bias = torch.cat([tensors["energy.static.bias"], tensors["energy.gate.bias"]])
    from_string = torch.cat([linear(tensors, "energy.memory", strings), F.linear(strings, weight[:, :bits], bias)], 1)
    state = torch.zeros_like(strings[:, :1]).expand(-1, hidden)
    for hop in range(hops):
        # The first state is zero; memory sees the string only.
        from_state = F.pad(F.linear(state, weight[:, bits:]), (2 * hidden - len(weight), 0)) if hop else 0
        candidate, gate = (from_string + from_state).chunk(2, 1)
        gate = torch.sigmoid(gate)
        state = gate * torch.tanh(candidate) + (1 - gate) * state
    return linear(tensors, "energy.out", state)[:, 0]


def residual_block(tensors: Tensors, name: str, images: Tensor) -> Tensor:
    x = torch.tanh(layer_norm(tensors, f"{name}.first_norm", convolution(tensors, f"{name}.first", images, 2)))
    y = torch.tanh(layer_norm(tensors, f"{name}.second_norm", convolution(tensors, f"{name}.second", x) + x))
    return x + y + convolution(tensors, f"{name}.skip", average_pool(images))


def bottleneck(tensors: Tensors, name: str, images: Tensor, stride: int) -> Tensor:
    x = torch.tanh(layer_norm(tensors, f"{name}.narrow_norm", convolution(tensors, f"{name}.narrow", images)))
    x = torch.tanh(layer_norm(tensors, f"{name}.wide_norm", memory_convolution(tensors, f"{name}.wide", x, stride)))
    return x + convolution(tensors, f"{name}.skip", images if stride == 1 else average_pool(images))


def recurrent_head(tensors: Tensors, name: str, features: Tensor, hops: int) -> Tensor:
    inputs = features.shape[1]

    def from_features(part: str) -> Tensor:
        return convolve(features, tensors[f"{name}.{part}.kernel"][:, :, :inputs], tensors[f"{name}.{part}.bias"])

    def normal(part: str, fixed: Tensor, state: Tensor | None) -> Tensor:
        seen = 0 if state is None else convolve(state, tensors[f"{name}.{part}.kernel"][:, :, inputs:])
        return layer_norm(tensors, f"{name}.{part}_norm", fixed + seen)

    fixed_candidate, fixed_gate = from_features("candidate"), from_features("gate")
    state = None
    for _ in range(hops):
        gate = torch.sigmoid(normal("gate", fixed_gate, state))
        candidate = torch.tanh(normal("candidate", fixed_candidate, state))
        state = gate * candidate + (0 if state is None else (1 - gate) * state)
    assert state is not None
    flat = state.permute(0, 2, 3, 1).flatten(1)
    return linear(tensors, f"{name}.out", torch.tanh(linear(tensors, f"{name}.dense", flat)))[:, 0]


def resnet_conv(tensors: Tensors, images: Tensor, *, halvings: int = 3, hops: int = 3) -> Tensor:
    x = images.permute(0, 3, 1, 2)
    x = residual_block(tensors, "energy.block2", residual_block(tensors, "energy.block1", x))
    x = bottleneck(tensors, "energy.block3", x, 2 if halvings == 4 else 1)
    return recurrent_head(tensors, "energy.head", bottleneck(tensors, "energy.block4", x, 2), hops)


def memory_layers(tensors: Tensors) -> dict[str, int]:
    """The arrays that writing changes, each with the number of its layer."""
    names = [name for name in tensors if ".memory." in name]
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in names))
    return {name: layers.index(name.rpartition(".")[0]) for name in names}


def write(energy: Energy, tensors: Tensors, patterns: Tensor) -> Tensors:
    """The same tensors with the patterns written into the memory."""
    layer_of, written = memory_layers(tensors), tensors
    for rates in F.softplus(tensors["write_rates.raw"]):
        memory = [written[name] for name in layer_of]
        # Anew at each step: what has been written depends on the patterns too, and that must not count as a slope.
        patterns = patterns.detach().requires_grad_()
        # One pass back gives the slopes with respect to the patterns and to the memory.
        slopes, *of_energy = torch.autograd.grad(
            energy(written, patterns).sum(), [patterns, *memory], create_graph=True
        )
        of_norm = torch.autograd.grad((slopes**2).sum(), memory, create_graph=True)
        changed = {}
        for (name, layer), energy_term, norm_term in zip(layer_of.items(), of_energy, of_norm, strict=True):
            prior_term = 2 * (written[name] - tensors[name])
            energy_rate, norm_rate, prior_rate = rates[layer]
            mean = (energy_rate * energy_term + norm_rate * norm_term) / len(patterns)
            changed[name] = written[name] - mean - prior_rate * prior_term
        written = written | changed
    return written


def decreasing(tensors: Tensors, name: str) -> Tensor:
    first = F.softplus(tensors[f"{name}.raw_first"])[None]
    return torch.cat([first, first * torch.cumprod(torch.sigmoid(tensors[f"{name}.logits"]), 0)])


def read(
    energy: Energy, written: Tensors, queries: Tensor, *, domain: tuple[float, float] | None, known: Tensor | None
) -> Tensor:
    """All iterates, [steps, n, *pattern]."""

    def project(patterns: Tensor) -> Tensor:
        inside = patterns if domain is None else patterns.clamp(*domain)
        return inside if known is None else torch.where(known, queries, inside)

    patterns, velocity, trajectory = queries, torch.zeros_like(queries), []
    rates, momenta = decreasing(written, "read_rates.rates"), decreasing(written, "read_rates.momenta")
    for rate, momentum in zip(rates, momenta, strict=True):
        ahead = project(patterns + momentum * velocity)
        (slope,) = torch.autograd.grad(energy(written, ahead).sum(), ahead, create_graph=True)
        velocity = momentum * velocity - rate * slope
        patterns = project(patterns + velocity)
        trajectory.append(patterns)
    return torch.stack(trajectory)


def reconstruction_loss(
    energy: Energy,
    tensors: Tensors,
    patterns: Tensor,
    queries: Tensor,
    *,
    domain: tuple[float, float] | None = (0.0, 1.0),
    known: Tensor | None = None,
) -> Tensor:
    trajectory = read(energy, write(energy, tensors, patterns), queries, domain=domain, known=known)
    return ((trajectory - patterns) ** 2).sum() / len(patterns)


def loss_and_meta_gradient(
    energy: Energy, tensors: Tensors, *episode: Tensor, **options: Any
) -> tuple[Tensor, Tensors]:
    """The loss of one episode and its gradient with respect to every tensor, third derivatives included."""
    loss = reconstruction_loss(energy, tensors, *episode, **options)
    # An offset of the energy moves nothing: its gradient is zero, which PyTorch calls unused.
    slopes = torch.autograd.grad(loss, list(tensors.values()), materialize_grads=True)
    return loss.detach(), dict(zip(tensors, slopes, strict=True))
