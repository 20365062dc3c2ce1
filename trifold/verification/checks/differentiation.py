"""Running a call forward and backward."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from trifold.isolation.device_memory import staged
from trifold.isolation.tensors import mapped
from trifold.spec import AliasCase, Call, TensorCase
from trifold.spec.call import Path, put_at, tensor_at
from trifold.spec.case import AnyCase
from trifold.verification.calls import FORMS, FORMS_LIMITS, FORMS_SALT, exchanged
from trifold.verification.cell import Arguments, Cell
from trifold.verification.comparison import only_floating, with_working, within_range
from trifold.verification.noise import Evaluations, mismatch_beyond_noise, similar_calls
from trifold.verification.outcomes import CheckFailed
from trifold.verification.results import as_tuple
from trifold.verification.seeding import seed
from trifold.verification.tolerance import Copies, same_numbers


@dataclass(frozen=True)
class Forward:
    """A call made with gradients: its differentiable arguments, and its results in the form of :meth:`Cell.invoke`."""

    inputs: list[Tensor]
    outputs: tuple[Tensor, ...]

    def ones(self) -> list[Tensor]:
        """Upstream gradients of 1, expanded from one number, for the results that have a gradient."""
        differentiable = [output for output in self.outputs if output.requires_grad]
        return [torch.ones((), dtype=y.dtype, device=y.device).expand(y.shape) for y in differentiable]

    def upstream(self, call: Call) -> list[Tensor]:
        """Upstream gradients for the results that have one, as :func:`differentiate` makes them.

        They differ: sums of ones have the same bits in any order.
        """
        return [
            upstream_gradient(y, call.dtype, call.seed + k).to(y.dtype)
            for k, y in enumerate(self.outputs)
            if y.requires_grad
        ]

    def gradients(self, outer: Sequence[Tensor], *, keep: bool = False) -> tuple[Tensor | None, ...]:
        """The gradient for each input, for these upstream gradients; None where no result depends on the input. With
        ``keep`` the graph can be used again."""
        outputs = [output for output in self.outputs if output.requires_grad]
        if not outputs or not self.inputs:
            return (None,) * len(self.inputs)
        return torch.autograd.grad(outputs, self.inputs, outer, retain_graph=keep, allow_unused=True)

    def gradients_of_sum(self) -> tuple[Tensor | None, ...]:
        """The gradient of the results' sum for each input; None where no result depends on the input."""
        return self.gradients(self.ones())

    def values_and_gradients(self) -> list[Tensor]:
        """The detached results, and the gradients of their sum."""
        values = [output.detach() for output in self.outputs]
        return [*values, *(grad for grad in self.gradients_of_sum() if grad is not None)]


def require_gradients(arguments: Arguments, call: Call, paths: Sequence[Path]) -> list[Tensor]:
    """Make the arguments at ``paths`` leaves that require a gradient, in place. An argument that is the same tensor as
    one of them remains so."""
    for path in paths:
        put_at(arguments, path, tensor_at(arguments, path).detach().requires_grad_())
    arguments[0][:] = call.with_aliases(arguments[0])
    return [tensor_at(arguments, path) for path in paths]


def forward(cell: Cell, call: Call, function: Callable[..., Any], arguments: Arguments | None = None) -> Forward:
    """Call ``function`` with the call's arguments (made here unless given), which require a gradient if they have
    one."""
    made = arguments or call.arguments(cell.device)
    inputs = require_gradients(made, call, cell.gradient_paths(call))
    seed(call.seed)
    return Forward(inputs, as_tuple(cell.with_written(call, function(*made[0], **made[1]), made)))


def in_dtype(call: Call, dtype: torch.dtype) -> Call:
    """The call with all floating tensors in ``dtype``, and complex ones in its complex counterpart."""

    def changed(case: AnyCase) -> AnyCase:
        if isinstance(case, TensorCase) and case.dtype.is_floating_point:
            return replace(case, dtype=dtype)
        if isinstance(case, TensorCase) and case.dtype.is_complex and dtype.itemsize >= 4:
            return replace(case, dtype=dtype.to_complex())
        return case

    return call.with_cases(changed)


def in_dtype_of_spec(cell: Cell, call: Call, dtype: torch.dtype) -> Call:
    """As :func:`in_dtype`, except for arguments that have another dtype in each of the spec's calls in ``dtype``, such
    as float32 parameters beside half types."""
    changed = in_dtype(call, dtype)
    for place, other in _dtypes_beside(cell, dtype).items():
        for path, case in changed.floating():
            if path[0] == place and case.dtype == dtype:
                changed = changed.with_cases(functools.partial(exchanged, case, replace(case, dtype=other)))
    return changed


def _dtypes_beside(cell: Cell, dtype: torch.dtype) -> dict[int | str, torch.dtype]:
    """The dtypes of arguments, by place, that are never in ``dtype`` where the call is."""
    found: dict[int | str, set[torch.dtype]] = {}
    drawn = cell.drawn_calls(FORMS_LIMITS, FORMS, salt=FORMS_SALT)
    for call in (*(call for _, call in cell.fixed_calls()), *drawn):
        for path, case in call.floating() if call.dtype == dtype else ():
            found.setdefault(path[0], set()).add(case.dtype)
    return {place: min(dtypes, key=str) for place, dtypes in found.items() if dtype not in dtypes}


Convert = Callable[[Tensor], Tensor]
Upstream = Callable[[Tensor, torch.dtype, int], Tensor]


# Elements. For larger results, an upstream gradient starts at the same alignment as the result, so that kernels for
# aligned rows are reached.
_PARTS = 4096


def upstream_gradient(result: Tensor, dtype: torch.dtype, seed: int) -> Tensor:
    """Normal numbers in one of several layouts, chosen by the number of elements.

    Two in three numbers of elements have stride 0, in all dimensions (as sum().backward() makes) or in one. The others
    are contiguous, transposed or, if small, a part of a larger tensor: at an offset, with rows or elements apart.
    """
    shape = tuple(result.shape)

    def numbers(*of: int) -> Tensor:
        return _normal_numbers(of, result, dtype, seed)

    if result.numel() % 3 == 1:
        dim = sum(n // 3 for n in shape) % (len(shape) + 1)
        return numbers(*(1 if d == dim else n for d, n in enumerate(shape)) if dim < len(shape) else ()).expand(shape)
    if not shape:
        return numbers()
    of_larger = result.numel() <= _PARTS and result.numel() // 3 % 2 == 1
    if result.numel() % 3 == 2:
        apart = numbers(*shape[:-1], 2 * shape[-1] + 1)[..., 1::2] if of_larger else None
        return numbers(*shape[::-1]).permute(*range(len(shape))[::-1]) if apart is None else apart
    return numbers(*shape[:-1], shape[-1] + 3)[..., 3:] if of_larger else numbers(*shape)


def plain_upstream_gradient(result: Tensor, dtype: torch.dtype, seed: int) -> Tensor:
    """Normal numbers, contiguous."""
    return _normal_numbers(result.shape, result, dtype, seed)


def _normal_numbers(shape: Sequence[int], result: Tensor, dtype: torch.dtype, seed: int) -> Tensor:
    """Normal numbers as upstream gradients of ``result``: complex if it is."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(shape, generator=generator)
    if result.is_complex():
        drawn = torch.complex(drawn, torch.randn(shape, generator=generator))
        return (drawn.to(dtype) if dtype.is_complex else drawn).to(result.device, non_blocking=True)
    return drawn.to(dtype.to_real()).to(result.device, non_blocking=True)


def special_upstream_gradient(result: Tensor, dtype: torch.dtype, seed: int) -> Tensor:
    """Normal numbers, and at one place in eight 0, -0, inf, -inf or nan."""
    generator = torch.Generator().manual_seed(seed)
    shape = tuple(result.shape)
    normal = torch.randn(shape, generator=generator)
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan])[torch.randint(5, shape, generator=generator)]
    chosen = torch.rand(shape, generator=generator) < 1 / 8
    return torch.where(chosen, special, normal).to(dtype).to(result.device, non_blocking=True)


def unit_upstream_gradient(result: Tensor, dtype: torch.dtype, seed: int) -> Tensor:
    """Ones, which ``sum().backward()`` passes down."""
    return torch.ones_like(result)


@dataclass(frozen=True)
class Differentiated:
    """The outcome of a call, forward and backward.

    Attributes:
        results: all of them.
        grads: for each requested argument; None where no result depends on it.
        outer: the upstream gradients of the results that have a gradient.
    """

    results: tuple[Tensor, ...]
    grads: tuple[Tensor | None, ...]
    outer: tuple[Tensor, ...]


def differentiate(
    cell: Cell,
    call: Call,
    paths: Sequence[Path],
    function: Callable[..., Any],
    *,
    convert: Convert | None = None,
    upstream: Convert | None = None,
    outer: Upstream | None = None,
    through: Sequence[int] | None = None,
) -> Differentiated:
    """Run ``function`` forward and backward.

    Args:
        paths: the arguments whose gradients are computed.
        convert: applied to the floating arguments and to the upstream gradients.
        upstream: also applied to the upstream gradients.
        outer: makes the upstream gradient of a result; default: :func:`upstream_gradient`.
        through: the results that have an upstream gradient, the others are unused; default: all.
    """
    change = only_floating(convert or (lambda value: value))
    arguments = tuple(mapped(list(call.arguments(cell.device)), change))
    inputs = require_gradients(arguments, call, paths)
    seed(call.seed)
    results = as_tuple(function(*arguments[0], **arguments[1]))
    # The upstream gradient is drawn in the op's dtype: the same numbers for the implementation and the reference.
    asked = [
        number
        for number in cell.gradient_results(results)
        if results[number].requires_grad and (through is None or number in through)
    ]
    make = outer or upstream_gradient
    given = [_of_result(make(results[k], call.dtype, call.seed + k), results[k], change, upstream) for k in asked]
    named = [
        *(("the upstream gradient", value) for value in given),
        *(("a result", value) for value in results),
        *(("an argument", value) for value in inputs),
    ]
    copies = Copies([value for _, value in named])
    grads: tuple[Tensor | None, ...]
    if asked and inputs:
        grads = torch.autograd.grad([results[k] for k in asked], inputs, given, allow_unused=True)
    else:
        grads = (None,) * len(inputs)
    for number in copies.changed():
        raise CheckFailed(f"backward changes {named[number][0]}", call)
    return Differentiated(results, grads, tuple(given))


def _of_result(drawn: Tensor, result: Tensor, change: Convert, upstream: Convert | None) -> Tensor:
    value = change(drawn)
    value = value if upstream is None else upstream(value)
    return value if value.dtype == result.dtype else value.to(result.dtype)


def exactly(cell: Cell) -> Convert:
    """Converts a tensor to the dtype in which the reference is exact."""
    dtype = cell.spec.reference_dtype
    return lambda value: value.to(dtype.to_complex() if value.is_complex() else dtype)


def gradient_scales(
    cell: Cell,
    call: Call,
    paths: Sequence[Path],
    dtype: torch.dtype | None = None,
    *,
    outer: Upstream | None = None,
) -> tuple[Tensor | None, ...]:
    """The scale of each gradient, in round-offs of ``dtype`` (default: the call's): the spec's, or the reference's
    gradient on absolute values."""
    if not paths:
        return ()
    spec, exact = cell.spec, exactly(cell)
    if spec.gradient_scale is None:
        sizes = differentiate(
            cell, call, paths, cell.reference, convert=lambda x: exact(x).abs(), upstream=torch.abs, outer=outer
        )
        return within_range(sizes.grads, dtype or call.dtype)
    every = within_range(_stated(cell, call, spec.gradient_scale, outer), dtype or call.dtype)
    if spec.gradient_working_scale is not None:
        every = with_working(every, _stated(cell, call, spec.gradient_working_scale, outer), dtype or call.dtype)
    sizes_at = dict(zip(_stated_paths(cell, call), every, strict=True))
    terms = _terms(cell, call, outer)
    return tuple(
        _added([sizes_at[path], *(sizes_at[same] for same in _very_tensors(call, path)), *terms.get(path, ())])
        for path in paths
    )


@dataclass(frozen=True)
class RightGradients:
    """The reference's gradients, by the path of the argument. They do not depend on which others are computed.

    Attributes:
        multiple: of the spec.
        native, exact: in the op's dtype, and in float64; None where no result depends on the argument.
        scale: see :func:`gradient_scales`.
        upstream: the largest finite absolute value of the upstream gradients.
        noise: evaluates the reference on similar calls, see :mod:`trifold.verification.noise`.
    """

    multiple: float
    native: dict[Path, Tensor | None]
    exact: dict[Path, Tensor | None]
    scale: dict[Path, Tensor | None]
    upstream: float
    noise: Callable[[Path], Evaluations]

    @classmethod
    def of(cls, cell: Cell, call: Call, paths: Sequence[Path], *, outer: Upstream | None = None) -> RightGradients:
        evaluated = functools.partial(_evaluated, cell, paths=paths, outer=outer)

        def noise(path: Path) -> Evaluations:
            for each in similar_calls(call):
                exact, native, scale, _ = evaluated(each)
                yield exact[path], native[path], scale[path]

        exact, native, scale, upstream = evaluated(call)
        return cls(cell.spec.multiple, native, exact, scale, upstream, noise)

    def wrong(self, path: Path, grad: Tensor) -> str | None:
        """What is wrong with a gradient; None if it is right, or if no result depends on the argument.

        Where the reference's is nan, as a difference of infinities is, an equally right formula may give one of them.
        """
        own, want, scale = self.native[path], self.exact[path], self.scale[path]
        if own is None or want is None:
            return None
        grad, own, want, *sizes = staged([grad, own, want, *(() if scale is None else (scale,))])
        if grad.shape == want.shape and bool((undefined := want.isnan() & grad.isinf()).any()):
            grad = torch.where(undefined, torch.nan, grad)
        noise = functools.partial(self.noise, path)
        size = sizes[0] if sizes else None
        return mismatch_beyond_noise(grad, want, own, size, noise, self.multiple, self.upstream)


def _evaluated(
    cell: Cell, call: Call, *, paths: Sequence[Path], outer: Upstream | None
) -> tuple[dict[Path, Tensor | None], dict[Path, Tensor | None], dict[Path, Tensor | None], float]:
    """The reference's gradients in float64 and in the op's dtype, their scales, by path, and the largest upstream
    gradient."""
    exact = differentiate(cell, call, paths, cell.reference, convert=exactly(cell), outer=outer)
    native = differentiate(cell, call, paths, cell.reference, outer=outer).grads
    scale = gradient_scales(cell, call, paths, outer=outer)
    sizes = [torch.nan_to_num(given.abs(), nan=0.0, posinf=0.0) for given in staged(exact.outer) if given.numel() > 0]
    largest = max((float(size.max()) for size in sizes), default=0.0)
    first, second, third = (dict(zip(paths, values, strict=True)) for values in (exact.grads, native, scale))
    return first, second, third, largest


def same_gradients(
    cell: Cell,
    call: Call,
    paths: Sequence[Path],
    first: Sequence[Tensor | None],
    second: Sequence[Tensor | None],
    outer: Upstream | None = None,
) -> bool:
    """Whether two runs of one backward pass agree: the same bits, except that any nan equals any other; or, where the
    spec says that a sum has no order, both within the bound."""
    pairs = list(zip(first, second, strict=True))
    if any((a is None) != (b is None) for a, b in pairs):
        return False
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    if all(map(same_numbers, staged([a for a, _ in both]), staged([b for _, b in both]))):
        return True
    if not cell.is_unordered(call):
        return False
    right = RightGradients.of(cell, call, paths, outer=outer)
    return not any(
        right.wrong(path, grad)
        for grads in (first, second)
        for path, grad in zip(paths, grads, strict=True)
        if grad is not None
    )


def stated_gradient_errors(cell: Cell, call: Call, stated: Callable[..., Any]) -> dict[Path, Tensor | None]:
    """The values that a function of a spec, such as ``gradient_rounding_error``, returns for each gradient."""
    return dict(zip(_stated_paths(cell, call), _stated(cell, call, stated, None), strict=True))


def _stated(cell: Cell, call: Call, stated: Callable[..., Any], outer: Upstream | None) -> tuple[Tensor | None, ...]:
    exact = exactly(cell)
    made = cell.converted(*call.arguments(cell.device))
    results = cell.refer(call, made)
    make = outer or upstream_gradient
    given = [exact(make(results[k], call.dtype, call.seed + k)) for k in cell.gradient_results(results)]
    seed(call.seed)
    return as_tuple(stated(cell.reference, *given, *made[0], **made[1]))


def _stated_paths(cell: Cell, call: Call) -> list[Path]:
    """The arguments whose scales a spec states, in order: those with a gradient, each tensor once."""
    paths = cell.gradient_paths(call)
    positional = [path for path in paths if isinstance(path[0], int)]
    positional += [(i,) for i, v in enumerate(call.args) if isinstance(v, AliasCase) and (v.of,) in paths]
    return [*sorted(positional), *(path for path in paths if isinstance(path[0], str))]


def _very_tensors(call: Call, path: Path) -> Iterator[Path]:
    """All paths of the argument, if it is passed more than once: autograd adds the gradients of all."""
    for other, value in enumerate(call.args):
        if isinstance(value, AliasCase) and value.is_same and (value.of,) == path:
            yield (other,)


def _terms(cell: Cell, call: Call, outer: Upstream | None) -> dict[Path, list[Tensor]]:
    """The sizes of what autograd adds to the gradient of a tensor that is passed as several arguments: the gradient for
    each of them, which is rounded before it is added. The sum may be smaller by any factor."""
    same = {path: list(_very_tensors(call, path)) for path in cell.gradient_paths(call)}
    if not any(same.values()):
        return {}
    values = (call.args[v.of] if isinstance(v, AliasCase) and v.is_same else v for v in call.args)
    separate = replace(call, args=tuple(values))
    paths = cell.gradient_paths(separate)
    grads = differentiate(cell, separate, paths, cell.reference, convert=exactly(cell), outer=outer).grads
    size_at = {path: grad.abs() for path, grad in zip(paths, grads, strict=True) if grad is not None}
    return {
        path: [size_at[one] for one in (path, *others) if one in size_at] for path, others in same.items() if others
    }


def _added(sizes: Sequence[Tensor | None]) -> Tensor | None:
    known = [size for size in sizes if size is not None]
    return sum(known[1:], known[0]) if known else None
