"""Tests that must run in the op's process: torch's own checks of operators, fakes, CUDA streams and graphs.

A function ``run_<what>`` has as arguments the implementation, the arguments of a call and the request. It returns an
answer in JSON, and tensors. Whatever the judge can decide from these is left to the judge.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from trifold.implementation import Implementation
from trifold.isolation.recorder import Recorder

from .defaults import other_random_states, random_states
from .tensors import Json, bytes_of, flattened, form_of, mapped, numbered, storage_key, tensors_in

Arguments = list[Any]
Answer = tuple[Json, Sequence[Tensor]]

_opcheck = torch.library.opcheck  # saved before the op's modules are imported, which could replace it
_UPSTREAM = 3  # gradients; with 1, a backward pass that scales what is saved, in place, changes nothing
_PLACES = 4  # launches of a call, at most, before which another call runs
_SLEEP = 100_000_000  # clock cycles: about 50 ms, longer than any launch here


def _results(result: Any) -> list[Any]:
    """The values of a result without nesting and without None."""
    return [value for value in flattened(result)[0] if value is not None]


def _inputs(*values: Any) -> list[Tensor]:
    """The tensors that require a gradient."""
    found: dict[int, Tensor] = {}
    mapped(values, lambda tensor: found.setdefault(id(tensor), tensor))
    return [tensor for tensor in found.values() if tensor.requires_grad]


def _gradients(
    outputs: list[Tensor], inputs: list[Tensor], outer: Sequence[Tensor] | None = None, *, again: bool = False
) -> Sequence[Tensor | None]:
    if not outputs or not inputs:
        return ()
    if outer is None:
        outer = [torch.full_like(output, _UPSTREAM) for output in outputs]
    return torch.autograd.grad(outputs, inputs, outer, create_graph=again, allow_unused=True)


# ------------------------------------------------------------------------------------------------------ operators


def run_opcheck(op: Implementation, args: Arguments, kwargs: dict[str, Any], request: Json) -> Answer:
    """torch.library.opcheck on each operator, with the arguments that forward, backward and double backward pass to it.

    Backward also runs once without create_graph: only then may it overwrite what was saved.
    """
    recorder = Recorder(op.operators.library.namespace)
    with recorder:
        _backward_twice(op.function, args, kwargs)
        outputs = [o for o in _results(op.function(*args, **kwargs)) if o.requires_grad]
        _gradients(outputs, _inputs(args, kwargs))
    problems = {}
    for name, (overload, given, named) in recorder.seen.items():
        # An operator without a gradient is not tested for one: torch's check adds up results of all dtypes.
        if op.operators.has_gradient(overload._schema.name.partition("::")[2]):
            given = tuple(a.requires_grad_() if isinstance(a, Tensor) and a.is_floating_point() else a for a in given)
        try:
            _opcheck(overload, given, named)
            problems[name] = ""
        except Exception as error:
            problems[name] = f"{type(error).__name__}: {error}"
    return {"problems": problems}, ()


def _backward_twice(
    function: Callable[..., Any], args: Arguments, kwargs: dict[str, Any], *, turned: bool = False
) -> None:
    """Forward, backward and the backward of that; ``turned``: for upstream gradients whose last dimension is outermost
    in memory."""
    inputs = _inputs(args, kwargs)
    outputs = [output for output in _results(function(*args, **kwargs)) if output.requires_grad]
    outer = [torch.full_like(output, _UPSTREAM) for output in outputs]
    if turned:
        outer = [one.mT.contiguous().mT if one.dim() > 1 else one for one in outer]
    outer = [one.requires_grad_() for one in outer]
    grads = _gradients(outputs, inputs, outer, again=True)
    differentiable = [grad for grad in grads if grad is not None and grad.requires_grad]
    try:
        _gradients(differentiable, [*inputs, *outer])
    except RuntimeError as error:
        if "has no gradient" not in str(error):
            raise


def run_what_is_kept(op: Implementation, args: Arguments, kwargs: dict[str, Any], request: Json) -> Answer:
    """How many arguments and results are still referenced after calls whose caller has dropped them, without gradients
    and, without a backward pass, with them; and the modules, besides torch, whose random state these calls change."""
    kept = []
    before = other_random_states()
    for gradients in (False, True):
        # The last call's may be cached until the next one.
        calls = [_storages_of_call(op, args, kwargs, gradients=gradients) for _ in range(2)]
        gc.collect()
        kept.append(sum(torch._C._storage_Use_Count(one._cdata) > 1 for one in calls[0]))
        del calls
    drawn = [name for name, state in random_states().items() if state != before[name]]
    return {"kept": kept[0], "kept for gradients": kept[1], "drawn": drawn}, ()


def run_what_is_freed(op: Implementation, args: Arguments, kwargs: dict[str, Any], request: Json) -> Answer:
    """The bytes that a call without gradients and one with them allocate and do not free, after two of each."""
    for gradients in (False, False, True, True):
        _storages_of_call(op, args, kwargs, gradients=gradients)
    with _counting_bytes() as leaked:
        for gradients in (False, True):
            _storages_of_call(op, args, kwargs, gradients=gradients)
    return {"leaked": leaked[0]}, ()


def _storages_of_call(
    op: Implementation, args: Arguments, kwargs: dict[str, Any], *, gradients: bool
) -> list[torch.UntypedStorage]:
    """The memory of copies of the arguments, and of the results, of a call whose caller drops them."""
    given = mapped([list(args), kwargs], functools.partial(_cloned, gradient=gradients))
    with torch.set_grad_enabled(gradients):
        results = _results(op.function(*given[0], **given[1]))
    return [one.untyped_storage() for one in tensors_in([given, results])]


@contextlib.contextmanager
def _counting_bytes() -> Iterator[list[int]]:
    """A list to which the bytes are added that torch allocates in the context and does not free there."""
    found: list[int] = []
    gc.collect()
    before = _bytes_on_gpus()
    with torch.autograd.profiler.profile(profile_memory=True) as profiled:
        yield found
        gc.collect()
    events = profiled.function_events
    assert events is not None
    found.append(sum(event.self_cpu_memory_usage for event in events) + _bytes_on_gpus() - before)


def _bytes_on_gpus() -> int:
    return sum(torch.cuda.memory_allocated(device) for device in range(torch.cuda.device_count()))


def _cloned(value: Tensor, *, gradient: bool) -> Tensor:
    """A copy, which requires a gradient if the value does and ``gradient`` says so."""
    return value.detach().clone().requires_grad_(gradient and value.requires_grad)


def run_changed_parameters(op: Implementation, args: Arguments, kwargs: dict[str, Any], request: Json) -> Answer:
    """Results, also without gradients, and gradients of a call with other numbers: first of parameters that have them,
    in place, since calls with the first numbers; then of tensors that no call had before."""

    def parameter(value: Tensor) -> Tensor:
        differentiable = value.is_floating_point() or value.is_complex()
        return torch.nn.Parameter(value.detach(), value.requires_grad) if differentiable else value

    def copied(value: Tensor) -> Tensor:
        return _copied(value.detach()).requires_grad_(value.requires_grad)

    def run(values: Any) -> tuple[list[Tensor], Sequence[Tensor | None]]:
        with torch.random.fork_rng(range(torch.cuda.device_count())):
            results, grads = _results_and_gradients(op, *values)
        with torch.random.fork_rng(range(torch.cuda.device_count())), torch.no_grad():
            return [*results, *tensors_in(_results(op.function(*values[0], **values[1])))], grads

    given = mapped([list(args), kwargs], parameter)
    run(given)
    parameters = (one for one in tensors_in(given) if isinstance(one, torch.nn.Parameter))
    for one in {storage_key(one): one for one in parameters}.values():
        # All of its memory, in the other order: these numbers are valid, too. Their change is not counted, as that by
        # an optimizer that writes to x.data is not.
        memory = one.data.new_empty(0).set_(one.untyped_storage())
        memory.copy_(memory.flip(0))
    fresh = mapped(given, copied)
    return _answer_of([run(given), run(fresh)])


def run_hooks_on_saved_tensors(op: Implementation, args: Arguments, kwargs: dict[str, Any], request: Json) -> Answer:
    """Results and gradients of a call, and of one in which hooks replace what is saved for backward by copies, as
    :class:`torch.autograd.graph.save_on_cpu` does; and how many of these copies the backward pass changes."""
    copies: list[tuple[Tensor, Tensor]] = []

    def pack(saved: Tensor) -> Tensor:
        copies.append((saved.detach().clone(), saved.detach().clone()))
        return copies[-1][0]

    def run(hooks: contextlib.AbstractContextManager[Any]) -> tuple[list[Tensor], Sequence[Tensor | None]]:
        with torch.random.fork_rng(range(torch.cuda.device_count())), hooks:
            return _results_and_gradients(op, args, kwargs)

    plain = run(contextlib.nullcontext())
    hooked = run(torch.autograd.graph.saved_tensors_hooks(pack, lambda copy: copy))
    changed = sum(not torch.equal(bytes_of(given), bytes_of(before)) for given, before in copies)
    answer, tensors = _answer_of([plain, hooked])
    return answer | {"changed": changed}, tensors


def run_interleaved(op: Implementation, args: Arguments, kwargs: dict[str, Any], request: Json) -> Answer:
    """Results and gradients of a call on the CPU: first alone, then once for each of its launches except the first,
    with another call before that launch.

    Args:
        args: for each of the two calls, its positional and its keyword arguments.
    """
    one, other = args
    runs: list[tuple[list[Tensor], Sequence[Tensor | None]]] = []

    def run(place: int | None) -> int:
        """Make the call, with the other one before the launch ``place``; returns the number of launches."""
        launches, inside = 0, False
        others: list[Future[Any]] = []

        def launched() -> None:
            nonlocal launches, inside
            if inside:  # a launch of the other call
                return
            if launches == place:
                inside = True
                # In another thread, since autograd's state of this one is that within an operator.
                with torch.random.fork_rng(devices=()), ThreadPoolExecutor(1) as thread:
                    others.append(thread.submit(_results_and_gradients, op, *other))
                inside = False
            launches += 1

        with torch.random.fork_rng(devices=()), _before_each_launch(op, launched):
            runs.append(_results_and_gradients(op, *one))
        for each in others:
            each.result()  # raises what the other call raised
        return launches

    launches = run(None)
    for place in range(1, launches, max(1, launches // _PLACES)):
        run(place)
    return _answer_of(runs)


def run_mapped(op: Implementation, args: Arguments, kwargs: dict[str, Any], request: Json) -> Answer:
    """Results and gradients of two calls under ``torch.vmap``, each followed by those of a loop: with a batch of each
    tensor, then of one tensor that requires a gradient, beside the first call's others. Those under vmap are left out
    where it raises an error, which the answer has.

    Args:
        args: for each of the two calls, its positional and its keyword arguments.
    """
    calls = [list(tensors_in(each)) for each in args]
    differentiable = [i for i, tensor in enumerate(calls[0]) if tensor.requires_grad]
    alone = [{i} for i in differentiable] if len(calls[0]) > 1 else []

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        remaining = iter(tensors)
        given = mapped(args[0], lambda _: next(remaining))
        return tuple(tensors_in(_results(op.function(*given[0], **given[1]))))

    def run(batch: set[int], call: Callable[..., Sequence[Tensor]]) -> tuple[list[Tensor], Sequence[Tensor | None]]:
        both = [torch.stack(pair) if i in batch else pair[0] for i, pair in enumerate(zip(*calls, strict=True))]
        leaves = [one.detach().requires_grad_(i in differentiable) for i, one in enumerate(both)]
        results = call(*leaves)
        outputs = [result for result in results if result.requires_grad]
        grads = _gradients(outputs, _inputs(leaves), [numbered(output) for output in outputs])
        return [result.detach() for result in results], grads

    def in_a_loop(batch: set[int], *leaves: Tensor) -> list[Tensor]:
        each = (function(*(leaf[n] if i in batch else leaf for i, leaf in enumerate(leaves))) for n in range(2))
        return [torch.stack(pair) for pair in zip(*each, strict=True)]

    runs, errors = [], []
    for batch in (set(range(len(calls[0]))), *alone):
        in_dims = tuple(0 if i in batch else None for i in range(len(calls[0])))
        try:
            runs.append(run(batch, torch.vmap(function, in_dims)))
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
        else:
            runs.append(run(batch, functools.partial(in_a_loop, batch)))
    answer, tensors = _answer_of(runs) if runs else ({"given": []}, ())
    return answer | {"errors": errors}, tensors


def _answer_of(runs: Sequence[tuple[list[Tensor], Sequence[Tensor | None]]]) -> Answer:
    """The results and gradients of runs of one call."""
    values = [[*results, *grads] for results, grads in runs]
    given = [[value is not None for value in of_run] for of_run in values]
    return {"results": len(runs[0][0]), "given": given}, [
        value for of_run in values for value in of_run if value is not None
    ]


def _results_and_gradients(
    op: Implementation, args: Arguments, kwargs: dict[str, Any]
) -> tuple[list[Tensor], Sequence[Tensor | None]]:
    results = list(tensors_in(_results(op.function(*args, **kwargs))))
    outputs = [result for result in results if result.requires_grad]
    grads = _gradients(outputs, _inputs(args, kwargs), [numbered(output) for output in outputs])
    return [result.detach() for result in results], grads


def _before_each_launch(op: Implementation, call: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
    """A context in which ``call`` is called before each launch, by the thread that launches."""
    if op.kind == "prototype":
        from trifold.simulator import launch

        return launch.told_to(lambda arrays: call())
    from trifold.cpu import runtime

    return runtime.before_each_launch(call)


def run_changed_before_backward(op: Implementation, args: Arguments, kwargs: dict[str, Any], request: Json) -> Answer:
    """Gradients for some upstream gradient; then the same with each argument and each result changed in place between
    forward and backward: the gradients, or the error."""
    arguments = list({id(tensor): tensor for tensor in tensors_in([args, kwargs])}.values())
    inputs = _inputs(args, kwargs)
    given: list[list[bool]] = []
    errors: list[str] = []
    tensors: list[Tensor] = []

    def differentiate(number: int | None = None) -> int:
        """Run forward and backward, with a tensor changed in between; returns the number of results."""
        results = _results(op.function(*args, **kwargs))
        outputs = [result for result in results if result.requires_grad]
        outer = [numbered(output) for output in outputs]
        changes = contextlib.nullcontext() if number is None else _changed([*arguments, *results][number])
        grads: Sequence[Tensor | None] = ()
        problem = ""
        with changes:
            try:
                grads = _gradients(outputs, inputs, outer)
            except RuntimeError as error:
                problem = str(error)
        errors.append(problem)
        given.append([grad is not None for grad in grads])
        tensors.extend(grad for grad in grads if grad is not None)
        return len(results)

    def from_the_same_state(number: int | None = None) -> int:
        with torch.random.fork_rng(range(torch.cuda.device_count())):
            return differentiate(number)

    for number in range(len(arguments) + from_the_same_state()):
        from_the_same_state(number)
    return {"given": given, "errors": errors[1:]}, tensors


@contextlib.contextmanager
def _changed(tensor: Tensor) -> Iterator[None]:
    """Within the context, the tensor has other numbers, written in place. Indices remain valid."""
    before = tensor.detach().clone()
    with torch.no_grad():
        if tensor.is_floating_point() or tensor.is_complex():
            tensor.mul_(-2).sub_(1)
        else:
            tensor.copy_(tensor.flip(tuple(range(tensor.dim()))))
    try:
        yield
    finally:
        tensor.detach().copy_(before)


def run_fake(op: Implementation, args: Arguments, kwargs: dict[str, Any], request: Json) -> Answer:
    """Shapes, strides, dtypes and devices of the public function's results on fake tensors."""
    results = _on_fakes(op.function, args, kwargs, _fakes(request))
    return {"forms": [form_of(result) for result in results]}, ()


def _fakes(request: Json, kind: type[FakeTensorMode] = FakeTensorMode) -> FakeTensorMode:
    """A mode in which fakes may leave sizes of results open, if the request says so; arguments have their own sizes."""
    if not request["open_sizes"]:
        return kind()
    from torch.fx.experimental.symbolic_shapes import ShapeEnv  # imports SymPy

    return kind(shape_env=ShapeEnv(), static_shapes=True)


def _on_fakes(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], mode: FakeTensorMode
) -> list[Any]:
    fake_args, fake_kwargs = mapped([list(args), kwargs], mode.from_tensor)
    with mode:
        return _results(function(*fake_args, **fake_kwargs))


def run_operators_on_fakes(op: Implementation, args: Arguments, kwargs: dict[str, Any], request: Json) -> Answer:
    """For each operator that forward and backward call, the forms of its results on fake tensors and on real ones."""
    beside = _FakeBeside(op.operators.library.namespace, functools.partial(_fakes, request))
    with beside:
        for turned in (False, True):
            _backward_twice(op.function, args, kwargs, turned=turned)
    return {"operators": beside.forms}, ()


class _OtherDefaultDevice(FakeTensorMode):
    """Runs fakes with another default device. A context around the call would end at the call of the operator."""

    def __torch_dispatch__(self, *args: Any, **kwargs: Any) -> Any:
        with torch.device("meta"):
            return super().__torch_dispatch__(*args, **kwargs)


class _FakeBeside(TorchDispatchMode):
    """Also runs each operator of a namespace on fake tensors."""

    def __init__(self, namespace: str, fakes: Callable[..., FakeTensorMode]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.namespace = namespace
        self.fakes = fakes
        self.forms: list[Json] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.namespace == self.namespace:
            fakes = _on_fakes(func, args, kwargs or {}, self.fakes())
            self.forms.append(
                {
                    "operator": func.name(),
                    "elsewhere": self._is_elsewhere(func, args, kwargs or {}, fakes),
                    "fake": [form_of(made) for made in fakes if isinstance(made, Tensor)],
                    "real": [form_of(made) for made in _results(result) if isinstance(made, Tensor)],
                }
            )
        return result

    def _is_elsewhere(self, func: Any, args: Any, kwargs: Any, fakes: list[Any]) -> bool:
        """Whether the fake of an operator, at its first call, leaves the device of a result to torch's default: that is
        right only on a CPU."""
        if any(form["operator"] == func.name() for form in self.forms):
            return False
        with contextlib.suppress(Exception):
            again = _on_fakes(func, args, kwargs, self.fakes(_OtherDefaultDevice))
            pairs = zip(fakes, again, strict=True)
            return any(isinstance(one, Tensor) and one.device != other.device for one, other in pairs)
        return False


# ------------------------------------------------------------------------------------------------------ on a GPU


def run_stream(op: Implementation, args: Arguments, kwargs: dict[str, Any], request: Json) -> Answer:
    """The results of a call in a side stream, after a sleep: work in any other stream reads the arguments too early."""
    early = mapped([args, kwargs], _copied)
    mapped(early, lambda value: bytes_of(value).zero_())
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(_SLEEP)
        _copy_into(early, [args, kwargs])
        late_args, late_kwargs = early
        results = [result.clone() for result in _results(op.function(*late_args, **late_kwargs))]
    torch.cuda.synchronize()
    return {}, results


def run_waits(op: Implementation, args: Arguments, kwargs: dict[str, Any], request: Json) -> Answer:
    """What returns only after the device's sleep: "the call", "the backward", or "" for neither."""
    inputs = _inputs(args, kwargs)
    torch.cuda.synchronize()
    awake = torch.cuda.Event()
    torch.cuda._sleep(_SLEEP)
    awake.record()
    outputs = _results(op.function(*args, **kwargs))
    late = "the call" if awake.query() else ""
    if not late and any(o.requires_grad and o.numel() for o in outputs):
        _gradients([o for o in outputs if o.requires_grad], inputs)
        late = "the backward" if awake.query() else ""
    torch.cuda.synchronize()
    return {"waits": late}, ()


def run_graph(op: Implementation, args: Arguments, kwargs: dict[str, Any], request: Json) -> Answer:
    """Capture the call with the first set of arguments, and replay it with each other set; returns the results of each
    replay.

    With ``draws``, three replays of the first: with seed 5, without a new seed, and with seed 5 again.

    Args:
        args: sets of arguments, each positional ones and those by keyword.
    """
    static = mapped(args[0], _copied)
    torch.cuda.synchronize()  # another stream does not wait for the copies
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        op.function(*static[0], **static[1])
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        results = _results(op.function(*static[0], **static[1]))
    # Capturing sets the generator's state on the device, in the capture's stream, and torch makes no replay wait for
    # it. Without this, the first replay's own state may be overwritten.
    torch.cuda.synchronize()
    kept: list[Tensor] = []
    if request["draws"]:
        for seed in (5, None, 5):
            if seed is not None:
                torch.manual_seed(seed)
            captured.replay()
            kept.append(results[0].clone())
        return {"results": len(results)}, kept
    for other in args[1:]:
        _copy_into(static, other)
        captured.replay()
        torch.cuda.synchronize()
        kept += [result.clone() for result in results]
    return {"results": len(results)}, kept


def _copied(value: Tensor) -> Tensor:
    """A copy of the tensor with the same layout."""
    storage = bytes_of(value).clone().untyped_storage()
    copy = torch.empty(0, dtype=value.dtype, device=value.device)
    return copy.set_(storage, value.storage_offset(), value.shape, value.stride())


def _copy_into(values: Any, others: Any) -> None:
    """Copy the memory of tensors into that of other tensors of the same layouts."""
    kept: list[list[Tensor]] = [[], []]
    for into, of in zip(kept, (values, others), strict=True):
        mapped(of, into.append)
    for value, other in zip(*kept, strict=True):
        bytes_of(value).copy_(bytes_of(other))
