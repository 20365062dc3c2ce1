"""The Mandelbrot set by Python's complex numbers."""

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def mandel(x, y, max_iters):
    c = complex(x, y)
    z = 0.0j
    for i in range(max_iters):
        z = z * z + c
        if z.real * z.real + z.imag * z.imag >= 4:
            return i
    return max_iters


@cuda.jit
def mandel_kernel(min_x, max_x, min_y, max_y, image, iters):
    height = image.shape[0]
    width = image.shape[1]
    pixel_size_x = (max_x - min_x) / width
    pixel_size_y = (max_y - min_y) / height
    start_x, start_y = cuda.grid(2)
    grid_x = cuda.gridDim.x * cuda.blockDim.x
    grid_y = cuda.gridDim.y * cuda.blockDim.y
    for x in range(start_x, width, grid_x):
        real = min_x + x * pixel_size_x
        for y in range(start_y, height, grid_y):
            imag = min_y + y * pixel_size_y
            image[y, x] = mandel(real, imag, iters)


def inputs(rng):
    return {"corner": rng.uniform(-2.2, -1.8, 1)}


def main(rng):
    left = float(inputs(rng)["corner"][0])
    image = np.zeros((15, 20), np.uint8)
    mandel_kernel[(2, 2), (4, 4)](left, 1.0, -1.0, 1.0, image, 20)
    return {"image": image}


def expected(given):
    left = given["corner"][0]
    c = (left + np.arange(20) * ((1.0 - left) / 20))[None] + 1j * (-1.0 + np.arange(15) * (2.0 / 15))[:, None]
    z, image = np.zeros_like(c), np.full(c.shape, 20)
    for i in range(20):
        z = np.where(image == 20, z * z + c, 0)
        image = np.where((image == 20) & (z.real**2 + z.imag**2 >= 4), i, image)
    return {"image": image}
