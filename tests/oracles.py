"""Independent answers: NumPy and finite differences, with nothing of the library in them."""

import numpy as np

# Central differences of fourth order: the error falls with the fourth power of the step.
OFFSETS = np.array([-2.0, -1.0, 1.0, 2.0])
WEIGHTS = np.array([1.0, -8.0, 8.0, -1.0]) / 12


def directional(function, at, direction, step=1e-3):
    """The derivative of a function of one array along a direction."""
    return sum(w * function(at + o * step * direction) for o, w in zip(OFFSETS, WEIGHTS, strict=True)) / step


def gradient(function, at, step=1e-3):
    """All partial derivatives of a function of one array, one at a time."""
    out = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        direction = np.zeros_like(at)
        direction[index] = 1
        out[index] = directional(function, at, direction, step)
    return out


def same_padding(length, size, stride):
    """How TensorFlow's "SAME" pads one axis, and how long the output is."""
    out = int(np.ceil(length / stride))
    total = max((out - 1) * stride + size - length, 0)
    return total // 2, out


def convolution(image, kernel, bias, stride=1):
    """A convolution by its definition, one output at a time."""
    height, width, _ = image.shape
    size = kernel.shape[0]
    (top, rows), (left, columns) = same_padding(height, size, stride), same_padding(width, size, stride)
    out = np.zeros((rows, columns, kernel.shape[-1])) + bias
    for i, j, a, b in np.ndindex(rows, columns, size, size):
        y, x = i * stride + a - top, j * stride + b - left
        if 0 <= y < height and 0 <= x < width:
            out[i, j] += image[y, x] @ kernel[a, b]
    return out


def average_pool(image, size=3, stride=2):
    height, width, channels = image.shape
    (top, rows), (left, columns) = same_padding(height, size, stride), same_padding(width, size, stride)
    out = np.zeros((rows, columns, channels))
    for i, j in np.ndindex(rows, columns):
        y, x = i * stride - top, j * stride - left
        out[i, j] = image[max(y, 0) : y + size, max(x, 0) : x + size].mean(axis=(0, 1))
    return out


def layer_norm(x, scale, offset):
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * scale + offset


def sigmoid(x):
    return 1 / (1 + np.exp(-x))
