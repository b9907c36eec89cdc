"""Make the drawings that are bundled with the package, from the evaluation set of Omniglot."""

import io

import numpy as np

from ebmm.data.omniglot import OMNIGLOT
from ebmm.data.omniglot_sample import FOLDER, chosen
from ebmm.files import write_whole


def main() -> None:
    images = OMNIGLOT.images("test")
    places = chosen(np.asarray(images.labels))
    labels = np.unique(np.asarray(images.labels)[places], return_inverse=True)[1]
    content = io.BytesIO()
    np.savez_compressed(content, images=np.asarray(images.stored)[places], labels=labels.astype(np.uint8))
    write_whole({FOLDER / "omniglot_sample.npz": content.getvalue()})
    print(f"{len(places)} drawings, {len(content.getvalue()):,} bytes")


if __name__ == "__main__":
    main()
