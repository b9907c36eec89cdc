"""The paper's five networks, and four of our own: those called mixed, and two reconstructions.

Each names its own writable layers, so that no `where` is needed.
"""

from .gated_rnn import GatedRNN as GatedRNN
from .image_reconstruction import ImageReconstruction as ImageReconstruction
from .mixed_image_rnn import MixedImageRNN as MixedImageRNN
from .mixed_rnn import MixedRNN as MixedRNN
from .resnet_conv import ResNetConv as ResNetConv
from .resnet_fc import ResNetFC as ResNetFC
from .resnet_imagenet import resnet_imagenet as resnet_imagenet
from .resnet_low_level import ResNetLowLevel as ResNetLowLevel
from .resnet_mixed import ResNetMixed as ResNetMixed
from .string_reconstruction import StringReconstruction as StringReconstruction
