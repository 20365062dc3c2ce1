"""Connected components of an image: each pixel takes the least label beside it, until none changes."""

import numpy as np
from numba import cuda


@cuda.jit
def spread(labels, image, after):
    y, x = cuda.grid(2)
    if y >= image.shape[0] or x >= image.shape[1] or image[y, x] == 0:
        return
    best = labels[y, x]
    for dy, dx in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        row, column = y + dy, x + dx
        if row < 0 or column < 0 or row >= image.shape[0] or column >= image.shape[1]:
            continue
        if image[row, column] and labels[row, column] < best:
            best = labels[row, column]
    after[y, x] = best


def inputs(rng):
    return {"image": (rng.random((9, 9)) < 0.5).astype(np.uint8)}


def main(rng):
    image = inputs(rng)["image"]
    labels = np.arange(image.size, dtype=np.int32).reshape(image.shape)
    for _ in range(image.size):
        after = labels.copy()
        spread[(3, 3), (4, 4)](labels, image, after)
        labels = after
    return {"labels": labels}


def expected(inputs):
    image = inputs["image"]
    labels = np.arange(image.size, dtype=np.int32).reshape(image.shape)
    for _ in range(image.size):
        for axis in (0, 1):
            for shift in (-1, 1):
                moved, other = (np.roll(each, shift, axis) for each in (labels, image))
                edge = np.ones_like(image)
                edge[(slice(None), 0 if shift > 0 else -1)[:: 1 if axis else -1]] = 0
                labels = np.where((image & other & edge) > 0, np.minimum(labels, moved), labels)
    return {"labels": labels.astype(np.int32)}
