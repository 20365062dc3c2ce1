"""Plain Numba CUDA kernels in the variety of styles in which they are written.

Each module has its kernels and

    inputs(rng) -> dict[str, ndarray]      draws the inputs
    main(rng) -> dict[str, ndarray]        draws them, launches, and returns all outputs
    expected(inputs) -> dict[str, ndarray] what NumPy computes of them, for some or all outputs

``TOLERANCE`` in a module is the relative tolerance of its floats where the default of its dtype is too narrow.
"""

SEED = 23  # of the generator that each main draws from
