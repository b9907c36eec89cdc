"""Omniglot drawings with two kinds of damage: the systems that the paper compares with, each at its own job."""

from ..baselines import DeepImagePrior, ExactStore, ModernHopfield
from ..interface import AbstractMemoryModel
from .bundled import rehearsed_row
from .tables import Column, PaperTable, System, published

SHAPE = (32, 32, 1)
BLOCK = Column("block", "16×16 block", "omniglot")
SALT = Column("salt", "15 % salt and pepper", "omniglot-salt", ending="-salt")


def deep_image_prior(patterns: int) -> AbstractMemoryModel:
    return DeepImagePrior(SHAPE, updates=2000)


def modern_hopfield(patterns: int) -> AbstractMemoryModel:
    return ModernHopfield(SHAPE, patterns=patterns)


def exact_store(patterns: int) -> AbstractMemoryModel:
    return ExactStore(SHAPE, patterns=patterns)


WITHOUT_MEMORY = (
    System("nothing", "doing nothing", yardstick="nothing"),
    System("blanked", "damage blanked, its place known", yardstick="blanked"),
    System(
        "autoencoder",
        "denoising auto-encoder",
        experiment="omniglot-autoencoder{ending}",
        published="autoencoder",
    ),
    *(
        System(
            f"vae-{steps}",
            f"VAE, {steps} read steps",
            experiment="omniglot-vae",
            published="vae" if steps == 50 else None,  # the paper's number of steps for Omniglot
            read_steps=steps,
            batches=100,  # of 64 drawings, each with a gradient through the decoder at every step
        )
        for steps in (50, 100, 200)
    ),
    System(
        "deep-image-prior",
        "Deep Image Prior, 2,000 updates, told where a block is",
        build=deep_image_prior,
        batches=1,
        patterns=16,
        told=(BLOCK.name,),
    ),
)
WITH_MEMORY = (
    System(
        "memory-network",
        "Memory Network",
        experiment="omniglot-memory-network{ending}",
        published="memory-network",
    ),
    System("mann", "MANN", experiment="omniglot-mann{ending}", published="mann"),
    *(
        System(
            f"kanerva-{count}",
            f"Kanerva machine, {count} patterns",
            experiment=f"omniglot-kanerva-{count}",
            patterns=count,
        )
        for count in (4, 64)
    ),
    System(
        "ebmm-conv",
        "EBMM, convolutional",
        experiment="omniglot-conv-9k",
        published="ebmm-conv",
        columns=(BLOCK.name,),
    ),
    System(
        "ebmm-mixed",
        "EBMM, mixed image RNN",
        experiment="omniglot-mixed-rnn-9k",
        columns=(BLOCK.name,),
    ),
    rehearsed_row(
        "ebmm-conv-rehearsed",
        "EBMM, convolutional, rehearsed",
        bundled="omniglot-conv-9k",
        on="omniglot",
        steps=lambda patterns: 1280,
        columns=(BLOCK.name,),
    ),
    System("modern-hopfield", "modern Hopfield", build=modern_hopfield),
    System("exact-store", "exact store", build=exact_store),
    System("exact-store-told", "exact store, deflated, place of the damage known", yardstick="exact"),
)
PRINTED = published("baselines")
BASELINES = PaperTable(
    name="baselines",
    heading="Other systems on Omniglot",
    title="Wrong pixels of 1,024",
    about=(
        "Every system at its own job, on drawings of 32×32 bits from alphabets that none of them was trained on: a "
        "16×16 block of each drawing is replaced by random bits, or 15 % of its pixels are set to black or white. "
        "Nobody is told where, unless the row says so. "
        "The Memory Network, the MANN and the auto-encoder learn from the damage that they are then tested on; the VAE "
        "and the Kanerva machine learn from undamaged drawings, and one training serves both. Those that "
        "hold 0 floats have no memory of the drawings: they know what drawings look like. "
        "Mixed: another network than the paper's, two convolutions and a memory between learned matrices "
        "(`ebmm.energies.MixedImageRNN`), trained on one CPU core. "
        "Rehearsed: the bundled model, whose written layers are moved by 1,280 more steps, each on the error of "
        "reading a sixteenth of the drawings from copies that are damaged in the same way. The memory and the five "
        "read steps are the same, a write takes a minute on a CPU, and the paper has no such row."
    ),
    columns=(BLOCK, SALT),
    systems=(*WITHOUT_MEMORY, *WITH_MEMORY),
    source=PRINTED.source,
    published=PRINTED.published,
    notes=PRINTED.notes,
)
