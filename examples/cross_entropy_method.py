"""The cross-entropy method: minimise a function by sampling, keeping the best samples, and fitting a normal to them.

    python examples/cross_entropy_method.py --dim 20 --plot convergence.png
    python examples/cross_entropy_method.py --device cuda --dim 1000 --samples 8192 --iterations 300

Each iteration draws `samples` points x = mean + std · z with trifold's normal_sample, and moves mean and std toward the
mean and the standard deviation of the best tenth. After De Boer, Kroese, Mannor, Rubinstein, "A Tutorial on the
Cross-Entropy Method", 2005: continuous optimisation with smoothed updates.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import trifold
from trifold.workspace import Workspace

Function = Callable[[Tensor], Tensor]  # points as columns (d, n) to values (n,)


def rastrigin(x: Tensor) -> Tensor:
    """Many local minima on a lattice; the least is 0, at 0."""
    return (10 + x * x - 10 * torch.cos(2 * math.pi * x)).sum(0)


def rosenbrock(x: Tensor) -> Tensor:
    """A long curved valley; the least is 0, at (1, …, 1)."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum(0)


def sphere(x: Tensor) -> Tensor:
    """The least is 0, at 0."""
    return (x * x).sum(0)


FUNCTIONS: dict[str, Function] = {"rastrigin": rastrigin, "rosenbrock": rosenbrock, "sphere": sphere}


@dataclass(frozen=True)
class Step:
    """After one iteration: the least value so far, the value at the mean, and the mean of std."""

    best: float
    at_mean: float
    spread: float


def minimise(
    function: Function,
    mean: Tensor,
    std: Tensor,
    *,
    samples: int,
    iterations: int,
    elite: float = 0.1,
    smoothing: float = 0.7,
    report: Callable[[int, Step], None] = lambda *_: None,
) -> tuple[Tensor, list[Step]]:
    """Where ``function`` is least, as far as the method finds it.

    Args:
        mean, std: shape (d,), where to start looking and how far around.
        samples: points drawn in each iteration.
        elite: the part of them that the next normal is fitted to.
        smoothing: how far mean and std move toward the fit, in (0, 1].
        report: called after each iteration.

    Returns:
        The final mean, and one :class:`Step` for each iteration.
    """
    normal_sample = trifold.load("normal_sample", workspace=Workspace.find(Path(__file__).parent))
    keep = max(2, round(elite * samples))
    best, history = math.inf, []
    for iteration in range(iterations):
        points = normal_sample(mean, std, samples)
        values, order = function(points).topk(keep, largest=False)
        chosen = points[:, order]
        mean = torch.lerp(mean, chosen.mean(1), smoothing)
        std = torch.lerp(std, chosen.std(1), smoothing)
        best = min(best, float(values[0]))
        history.append(Step(best, float(function(mean[:, None])), float(std.mean())))
        report(iteration, history[-1])
    return mean, history


def plot(history: Sequence[Step], title: str, path: Path) -> None:
    """Draw the values and the spread against the iteration, and save them to ``path``."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    floor = 1e-12  # a value of 0 has no logarithm
    axes.semilogy([max(step.best, floor) for step in history], label="least value so far")
    axes.semilogy([max(step.at_mean, floor) for step in history], label="value at the mean")
    axes.semilogy([max(step.spread, floor) for step in history], "--", label="mean standard deviation")
    axes.set(xlabel="iteration", title=title)
    axes.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> list[Step]:
    parser = argparse.ArgumentParser(description="Minimise a test function by the cross-entropy method.")
    parser.add_argument("--function", choices=FUNCTIONS, default="rastrigin")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--dim", type=int, default=20, help="dimensions of the function")
    parser.add_argument("--samples", type=int, default=2048, help="points drawn in each iteration")
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="save a convergence plot here")
    options = parser.parse_args(arguments)
    for name in ("dim", "samples", "iterations"):
        if getattr(options, name) < 2:
            parser.error(f"--{name} must be 2 or more")

    torch.manual_seed(options.seed)
    mean = torch.empty(options.dim, device=options.device).uniform_(-3, 3)
    std = torch.full_like(mean, 3.0)
    every = max(1, options.iterations // 10)

    def report(iteration: int, step: Step) -> None:
        if (iteration + 1) % every == 0:
            print(f"{iteration + 1:5d}  least {step.best:11.4e}  at mean {step.at_mean:11.4e}  std {step.spread:9.2e}")

    print(f"{options.function} in {options.dim} dimensions, {options.samples} samples, on {options.device}")
    mean, history = minimise(
        FUNCTIONS[options.function], mean, std, samples=options.samples, iterations=options.iterations, report=report
    )
    if options.plot is not None:
        plot(history, f"Cross-entropy method: {options.function}, d = {options.dim}", options.plot)
        print(f"plot saved to {options.plot}")
    return history


if __name__ == "__main__":
    main()
