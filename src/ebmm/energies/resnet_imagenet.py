"""The ImageNet version of the ResNet with convolutional memory: 64×64 colour images, twice the channels."""

from jaxtyping import PRNGKeyArray

from .resnet_conv import ResNetConv


def resnet_imagenet(*, memory_width: int = 8, key: PRNGKeyArray) -> ResNetConv:
    """2,306 floats of memory for each of `memory_width` channels."""
    return ResNetConv(image_shape=(64, 64, 3), memory_width=memory_width, channels=64, hidden=256, halvings=4, key=key)
