"""normal_sample: statistics, random state and agreement of its kernels; each check has an input that it must reject."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

from trifold.implementation import load_port, prototype_module
from trifold.port.random import philox_state
from trifold.workspace import Workspace, import_file

FILES = Workspace.at(Path(__file__).parents[1]).files("normal_sample")
Sampler = Callable[..., Tensor]

# A statistic fails by chance once in a million times; the seeds are fixed.
SIGNIFICANCE = 1e-6


@pytest.fixture(scope="module")
def normal_sample() -> Sampler:
    return load_port(FILES).function


@pytest.fixture(scope="module")
def reference() -> Sampler:
    function: Sampler = prototype_module(FILES, "cpu").reference
    return function


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(20)
        yield


def noise(sample: Sampler, d: int, n: int, dtype: torch.dtype = torch.float32, **options: Any) -> Tensor:
    return sample(torch.zeros(d, dtype=dtype), torch.ones(d, dtype=dtype), n, **options)


# ------------------------------------------------------------------------------------------------- statistics


def is_standard_normal(z: Tensor) -> bool:
    """Kolmogorov–Smirnov, and the first four moments against their standard errors."""
    z = z.double().flatten()
    limit = stats.norm.isf(SIGNIFICANCE / 2)
    # Variance of the mean of z^k: E z^2k - (E z^k)^2
    moments = {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96)}
    errors = [(z.pow(k).mean() - mean) / (variance / len(z)) ** 0.5 for k, (mean, variance) in moments.items()]
    return stats.kstest(z.numpy(), "norm").pvalue > SIGNIFICANCE and all(abs(error) < limit for error in errors)


def rows_are_uncorrelated(z: Tensor) -> bool:
    """Every pair of rows, and every row with the next at a lag of one column."""
    limit = stats.norm.isf(SIGNIFICANCE / 2 / z.shape[0] ** 2) / z.shape[1] ** 0.5
    same = torch.corrcoef(z).fill_diagonal_(0)
    lagged = torch.corrcoef(torch.cat([z[:, 1:], z[:, :-1]]))[: len(z), len(z) :]
    return bool(same.abs().max() < limit and lagged.abs().max() < limit)


@pytest.mark.parametrize("columns", [9, 4096, 4099], ids=["plain kernel", "whole rows", "rows share vectors"])
def test_noise_is_standard_normal(normal_sample: Sampler, columns: int) -> None:
    assert is_standard_normal(noise(normal_sample, 200_000 // columns, columns))


def test_shared_noise_is_standard_normal(normal_sample: Sampler) -> None:
    assert is_standard_normal(noise(normal_sample, 2, 200_000, shared_noise=True)[0])


@pytest.mark.parametrize("wrong", [lambda z: z * 1.02, lambda z: z + 0.02, lambda z: z.clamp(-3, 3), Tensor.sign])
def test_the_normality_check_rejects(normal_sample: Sampler, wrong: Callable[[Tensor], Tensor]) -> None:
    assert not is_standard_normal(wrong(noise(normal_sample, 48, 4096)))


def test_rows_are_independent_unless_shared(normal_sample: Sampler) -> None:
    assert rows_are_uncorrelated(noise(normal_sample, 20, 5000))
    shared = noise(normal_sample, 20, 5000, shared_noise=True)
    assert not rows_are_uncorrelated(shared)
    assert torch.equal(shared, shared[:1].expand(20, -1))


def test_successive_calls_are_independent(normal_sample: Sampler) -> None:
    calls = torch.stack([noise(normal_sample, 1, 5000)[0] for _ in range(10)])
    assert rows_are_uncorrelated(calls)


# ------------------------------------------------------------------------------------------------- same noise


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("d", "n"), [(14, 9), (6, 21), (2, 63), (1, 126)])
def test_the_kernels_make_the_same_normals(normal_sample: Sampler, dtype: torch.dtype, d: int, n: int) -> None:
    """Normal i is the same number in every shape, thus in the plain kernel and in both vectorised ones."""
    torch.manual_seed(1)
    whole = noise(normal_sample, 1, 128, dtype)[0]
    torch.manual_seed(1)
    assert torch.equal(noise(normal_sample, d, n, dtype).flatten(), whole[: d * n])
    torch.manual_seed(1)
    assert torch.equal(noise(normal_sample, d, n, dtype, shared_noise=True), whole[:n].expand(d, n))


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 5e-7), (torch.float16, 2**-10), (torch.bfloat16, 2**-7)])
def test_the_noise_of_a_seed_is_the_same_in_every_dtype(
    normal_sample: Sampler, dtype: torch.dtype, rtol: float
) -> None:
    torch.manual_seed(1)
    exact = noise(normal_sample, 3, 65, torch.float64)
    torch.manual_seed(1)
    torch.testing.assert_close(noise(normal_sample, 3, 65, dtype).double(), exact, rtol=rtol, atol=0)


@pytest.mark.parametrize("shared_noise", [False, True])
def test_strided_and_expanded_arguments(normal_sample: Sampler, reference: Sampler, shared_noise: bool) -> None:
    mean, std = torch.randn(10)[1::3], torch.rand(1).expand(3)
    results = []
    for sample in (normal_sample, reference):
        torch.manual_seed(1)
        results.append(sample(mean, std, 17, shared_noise=shared_noise))
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-6)


def test_backward_takes_an_expanded_gradient_and_stays_accurate_over_long_rows(normal_sample: Sampler) -> None:
    n = 1_000_003
    mean, std = torch.zeros(2, requires_grad=True), torch.ones(2, requires_grad=True)
    z = normal_sample(mean, std, n)
    (3 * z.sum()).backward()  # the gradient of a sum has stride 0
    assert mean.grad is not None
    assert std.grad is not None
    assert torch.equal(mean.grad, torch.full((2,), 3.0 * n))
    exact = 3 * z.detach().double().sum(1)
    assert ((std.grad - exact).abs() / (3 * z.detach().double().abs().sum(1))).max() < 2**-23
    assert ((z.detach().cumsum(1)[:, -1] * 3 - exact).abs() / (3 * z.abs().sum(1))).max() > 0  # a plain sum is worse


def test_infinite_gradients_stay_infinite(normal_sample: Sampler) -> None:
    mean, std = torch.zeros(1, requires_grad=True), torch.ones(1, requires_grad=True)
    grad = torch.ones(1, 9)
    grad[0, 3] = torch.inf
    normal_sample(mean, std, 9).backward(grad)
    assert mean.grad is not None
    assert torch.equal(mean.grad, torch.tensor([torch.inf]))


# ------------------------------------------------------------------------------------------------- random state


def test_seed_and_generator_repeat_the_noise(normal_sample: Sampler) -> None:
    torch.manual_seed(3)
    first, second = noise(normal_sample, 2, 8), noise(normal_sample, 2, 8)
    torch.manual_seed(3)
    assert torch.equal(noise(normal_sample, 2, 8), first)
    assert torch.equal(noise(normal_sample, 2, 8), second)
    assert not torch.equal(first, second)
    own = torch.Generator().manual_seed(3)
    state = torch.get_rng_state()
    assert torch.equal(noise(normal_sample, 2, 8, generator=own), first)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_cpu_state_is_a_seed_of_63_bits() -> None:
    draws = [philox_state(torch.device("cpu")) for _ in range(200)]
    assert all(offset == 0 and state is None for _, offset, state in draws)
    assert len({seed for seed, _, _ in draws}) == 200
    assert max(seed for seed, _, _ in draws) > 2**62


def test_compiled_calls_draw_from_torchs_generator(normal_sample: Sampler) -> None:
    compiled = torch.compile(normal_sample, fullgraph=True, backend="aot_eager")
    torch.manual_seed(3)
    first = noise(compiled, 2, 8)
    assert not torch.equal(noise(compiled, 2, 8), first)
    torch.manual_seed(3)
    assert torch.equal(noise(compiled, 2, 8), first)
    with pytest.raises(Exception, match=r"generator must be None under torch\.compile"):
        noise(compiled, 2, 8, generator=torch.Generator())


ONE = torch.ones(2)
BAD_CALLS: dict[str, tuple[tuple[Any, ...], str]] = {
    "negative num_samples": ((ONE, ONE, -1), "num_samples must not be negative"),
    "shapes": ((ONE, torch.ones(3), 4), "mean and std must have the same shape"),
    "dtypes": ((ONE, ONE.double(), 4), "mean and std must have the same dtype"),
    "integers": ((ONE.long(), ONE.long(), 4), "mean must be float64"),
    "two dimensions": ((ONE[None], ONE[None], 4), "mean and std must have one dimension"),
    "no dimension": ((ONE[0], ONE[0], 4), "mean and std must have one dimension"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_errors_name_the_argument(normal_sample: Sampler, case: str) -> None:
    arguments, message = BAD_CALLS[case]
    with pytest.raises(RuntimeError, match=message):
        normal_sample(*arguments)


@pytest.mark.parametrize("state", [torch.zeros(2, dtype=torch.int64), torch.zeros(1)], ids=["two seeds", "a float"])
def test_the_operator_refuses_a_wrong_state(state: Tensor) -> None:
    port = load_port(FILES)
    with pytest.raises(RuntimeError, match="state must be an int64 tensor of one element"):
        port.operators.normal_sample(ONE, ONE, 4, False, 0, 0, state)
    with pytest.raises(RuntimeError, match="state must be an int64 tensor of one element"):
        port.operators.normal_sample_backward(torch.ones(2, 4), False, 0, 0, state)


@pytest.mark.parametrize(("d", "n"), [(0, 5), (5, 0), (0, 0)])
def test_empty_results(normal_sample: Sampler, d: int, n: int) -> None:
    mean = torch.zeros(d, requires_grad=True)
    samples = normal_sample(mean, torch.ones(d), n)
    assert samples.shape == (d, n)
    samples.sum().backward()
    assert mean.grad is not None
    assert torch.equal(mean.grad, torch.zeros(d))


# ------------------------------------------------------------------------------------------------- the example


def test_the_example_finds_the_minimum_and_draws_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = import_file(FILES.prototype.parents[1] / "examples" / "cross_entropy_method.py", "cross_entropy_method")
    picture = tmp_path / "convergence.png"
    history = example.main(["--dim", "4", "--samples", "1000", "--iterations", "50", "--plot", str(picture)])
    assert history[-1].at_mean < 1e-3 < history[0].at_mean
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.count("least") == 10


def test_the_example_needs_a_spread_to_search_with() -> None:
    example = import_file(FILES.prototype.parents[1] / "examples" / "cross_entropy_method.py", "cross_entropy_method")
    start, nowhere = torch.full((4,), 2.3), torch.zeros(4)
    mean, history = example.minimise(example.rastrigin, start, nowhere, samples=100, iterations=5)
    assert torch.allclose(mean, start)
    assert history[-1].best > 1


# ------------------------------------------------------------------------------------------------- on a GPU


gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


def on_gpu(sample: Sampler, generator: torch.Generator | None = None) -> Tensor:
    return sample(torch.zeros(4, device="cuda"), torch.ones(4, device="cuda"), 8, generator=generator)


def captured(sample: Sampler, calls: int, generator: torch.Generator | None = None) -> Callable[[], Tensor]:
    """A graph of ``calls`` draws; the result replays it and returns all of them."""
    on_gpu(sample)
    graph = torch.cuda.CUDAGraph()
    if generator is not None:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        samples = [on_gpu(sample, generator) for _ in range(calls)]
    torch.cuda.synchronize()  # as the row "graph" of verify says

    def replay() -> Tensor:
        graph.replay()
        return torch.stack(samples)

    return replay


@gpu
@needs_gpu
def test_a_replay_draws_new_numbers_and_a_seed_repeats_it(normal_sample: Sampler) -> None:
    replay = captured(normal_sample, 130)  # more draws than one pool of seeds serves
    first, second = replay(), replay()
    assert first.unique().numel() == first.numel()
    assert not torch.isin(second, first).any()
    torch.manual_seed(9)
    first = replay()
    torch.manual_seed(9)
    assert torch.equal(replay(), first)


@gpu
@needs_gpu
def test_captures_and_eager_calls_do_not_share_seeds(normal_sample: Sampler) -> None:
    one, other = captured(normal_sample, 3), captured(normal_sample, 3)
    draws = torch.cat([one(), other(), one(), on_gpu(normal_sample)[None], on_gpu(normal_sample)[None]])
    assert draws.unique().numel() == draws.numel()


@gpu
@needs_gpu
def test_a_registered_generator_serves_a_capture(normal_sample: Sampler) -> None:
    generator = torch.Generator("cuda").manual_seed(4)
    replay = captured(normal_sample, 3, generator)
    generator.manual_seed(4)
    first = replay()
    generator.manual_seed(4)
    assert torch.equal(replay(), first)
    assert not torch.equal(replay(), first)


@gpu
@needs_gpu
def test_two_streams_of_a_capture_draw_from_pools_of_their_own(normal_sample: Sampler) -> None:
    on_gpu(normal_sample)
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        main = torch.cuda.current_stream()
        first = on_gpu(normal_sample)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            second = on_gpu(normal_sample)
        main.wait_stream(side)
        third = on_gpu(normal_sample)
    for _ in range(3):
        graph.replay()
        draws = torch.stack([first, second, third])
        assert draws.unique().numel() == draws.numel()


@gpu
@needs_gpu
def test_gradients_in_a_capture_use_the_replays_noise(normal_sample: Sampler) -> None:
    mean, std = torch.zeros(4, device="cuda", requires_grad=True), torch.ones(4, device="cuda", requires_grad=True)
    grad = torch.rand(4, 8, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.autograd.grad(normal_sample(mean, std, 8), (mean, std), grad)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = normal_sample(mean, std, 8)
        grad_mean, grad_std = torch.autograd.grad(z, (mean, std), grad)
    for _ in range(2):
        graph.replay()
        torch.testing.assert_close(grad_mean, grad.sum(1))
        torch.testing.assert_close(grad_std, (grad * z).sum(1))


@gpu
@needs_gpu
def test_eager_calls_follow_torchs_generator_and_do_not_wait(normal_sample: Sampler) -> None:
    torch.manual_seed(3)
    first, second, plain = on_gpu(normal_sample), on_gpu(normal_sample), torch.randn(4, device="cuda")
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(on_gpu(normal_sample), first)
    assert torch.equal(on_gpu(normal_sample), second)
    assert torch.equal(torch.randn(4, device="cuda"), plain)
    torch.cuda.set_sync_debug_mode("error")
    try:
        on_gpu(normal_sample)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@gpu
@needs_gpu
def test_a_generator_of_another_device_is_refused(normal_sample: Sampler) -> None:
    with pytest.raises(RuntimeError, match="generator must be on the device of the result"):
        on_gpu(normal_sample, torch.Generator())
    with pytest.raises(RuntimeError, match="generator must be on the device of the result"):
        noise(normal_sample, 2, 8, generator=torch.Generator("cuda"))


@gpu
@needs_gpu
def test_gpu_noise_is_standard_normal_and_beyond_31_bits_of_elements(normal_sample: Sampler) -> None:
    mean, std = torch.zeros(3, device="cuda", dtype=torch.half), torch.ones(3, device="cuda", dtype=torch.half)
    long = normal_sample(mean, std, 800_000_003)
    assert is_standard_normal(long[2, -100_000:].float().cpu())
    assert is_standard_normal(normal_sample(mean.float(), std.float(), 100_000).cpu())
