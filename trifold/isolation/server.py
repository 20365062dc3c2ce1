"""The process that runs an op: ``python -m trifold.isolation.server SETUP``.

It loads what :func:`trifold.load` loads and answers requests over a socket. It contains no reference, no exact result
and no module of the verification: in the prototype's file the function ``reference`` raises. Each request is a method
of :class:`Server`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import json
import os
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trifold import own_process
from trifold.apart import far_apart
from trifold.build.paths import gpu_paths
from trifold.cells import Device, ImplementationKind
from trifold.cpu.runtime import prepare
from trifold.cpu.settings import KERNEL_SECONDS
from trifold.errors import ToolchainError
from trifold.implementation import Implementation, load_port, load_prototype
from trifold.isolation import device_guard, guard
from trifold.workspace import OpFiles, Workspace

from . import beside, defaults, prototype_kernels
from .channel import Arena, Channel, Closed
from .checking import CHECKED_FORMS, Checking
from .computed import Computed
from .device_memory import DriverError, gpu_is_lost, let_autograd_finish, wait_asleep
from .memory import Held, Memory
from .op_errors import either, error_of, first_lines
from .source import without_reference
from .tensors import Json, Packed, Unpacking, bytes_of_storage, flattened, mapped, tensors_in

_GPU_ALIGNMENT = 512  # bytes; the alignment of torch's allocator for GPUs
_GUARDED_BYTES = 64 * 2**20  # larger blocks are not guarded on the CPU
_APART = 2**30  # bytes; fewer than a tensor of trifold.apart spans


@dataclass(frozen=True)
class Setup:
    """The settings with which an op's process starts.

    Attributes:
        connection, incoming, outgoing: file descriptors: of the socket, and of the arenas for arguments and results.
        coverage: the folder for counts of the lines that run; None: nothing is counted.
        guarded: guard all memory of GPUs (:mod:`trifold.isolation.device_guard`).
    """

    workspace: str
    op: str
    implementation: ImplementationKind
    device: Device
    connection: int
    incoming: int
    outgoing: int
    coverage: str | None = None
    guarded: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Server:
    """Answers requests. Each method named ``do_<request>`` handles one kind, and returns that kind's part of the
    reply."""

    def __init__(self, setup: Setup, channel: Channel) -> None:
        self.setup, self.channel = setup, channel
        workspace = Workspace.at(Path(setup.workspace))
        self.files: OpFiles = workspace.op(setup.op)
        self.checking = Checking(workspace, self.files, setup.implementation)
        self._settings = defaults.settings()
        self._implementations: dict[str, Implementation] = {}
        self._compiled: Callable[..., Any] | None = None
        self.memory = Memory()
        self._computed: Computed | None = None  # record of the last recorded call
        self.guard = device_guard if setup.device == "cuda" else guard
        self._why_unguarded = _guard_gpus() if setup.guarded else ""

    # ------------------------------------------------------------------------------------------------ what is run

    def implementation(self, form: str = "plain") -> Implementation:
        """The op's implementation: ``plain``, or for a port also ``checked``, ``gpu paths`` or ``jittered``."""
        if form not in self._implementations:
            if self.setup.implementation == "prototype":
                self._implementations[form] = load_prototype(self.files, self.setup.device, without_reference)
                if self.setup.device == "cuda":
                    prototype_kernels.prepare_kernels(self.files)
            elif form in CHECKED_FORMS:
                self._implementations[form] = self.checking.load(form)
            elif form == "jittered":
                self._implementations[form] = load_port(self.files, "jittered")
            else:
                self._implementations[form] = load_port(
                    self.files, "fast" if self.setup.coverage is None else "coverage"
                )
        return self._implementations[form]

    def function(self, form: str) -> Callable[..., Any]:
        """The op's public function: plain, of another build, or under ``torch.compile(fullgraph=True)``."""
        if form != "compiled":
            return self.implementation(form).function
        if self._compiled is None:
            torch._dynamo.reset()
            self._compiled = torch.compile(self.implementation().function, fullgraph=True)
        return self._compiled

    # --------------------------------------------------------------------------------------------------- requests

    def do_load(self, request: Json) -> Json:
        """Load the op, and (with ``build``) build it; returns the names of its operators."""
        _read_kernel_seconds()
        maps = self._try_mapping(request)
        form = request.get("form", "plain")
        implementation = self.implementation(form)
        library = None
        if request["build"]:
            library = implementation.kernels("cpu" if form in CHECKED_FORMS else self.setup.device)
        return {
            "operators": sorted(implementation.operators.schemas),
            "differentiable": implementation.differentiable,
            "library": None if library is None else str(library.path),
            "guarded": self.guard.is_active(),
            "why unguarded": self._why_unguarded,
            "maps": maps,
        }

    def _try_mapping(self, request: Json) -> bool:
        """Whether a block that the judge lent for a test can be mapped; then the judge can map this process's memory as
        well."""
        try:
            for place in request["storages"]:
                with self.channel.incoming.reading(place):
                    self.channel.outgoing.on_gpu = "handle" in place
        except DriverError:
            self.channel.outgoing.on_gpu = False
        return self.channel.outgoing.on_gpu

    def do_call(self, request: Json) -> Json:
        """Call the public function."""
        storages, generators = self._receive(request)
        self._record(request)
        watching = self.checking.watching(request["schedules"], native=bool(request.get("native")))
        with self._guarded(request), self._aligned(request), watching as found:
            made = self._storages(request, storages)
            values = Unpacking(made.__getitem__, generators.__getitem__).value(
                {"list": [request["args"], request["kwargs"]]}
            )
            args, kwargs = values = _apart(values, request)
            self._set_random_state(request)
            self._set_jitter(request)
            owners = [bytes_of_storage(storage) for storage in made]
            function = functools.partial(self.function(request["form"]), *args, **kwargs)
            tensors = list(tensors_in(values))
            forms = list(map(_form, tensors))
            with self._computing(request, owners, None) as computed:
                run = functools.partial(_in_mode, request["mode"], function)
                result = defaults.called(run, request["others"], self.setup.device)
            for tensor, form in zip(tensors, forms, strict=True):
                if _form(tensor) != form:
                    raise RuntimeError(f"the call changes the shape of an argument, from {form} to {_form(tensor)}")
            inputs = {id(value): value for value in tensors if value.requires_grad}
            held = Held(owners, owners, inputs=list(inputs.values()))
            reply = self._answer(result, held, owners, list(generators.values()), request)
        reply["copied"] = _sources(computed, result)
        return reply | self.checking.in_reply(found)

    def do_backward(self, request: Json) -> Json:
        """Gradients of a call or of an earlier backward, for the upstream gradients ``outer``, of which some may be
        None.

        An upstream gradient that requires no gradient is a constant, as in a gradient penalty.
        """
        held = self.memory.calls[request["handle"]]
        storages, _ = self._receive(request)
        with self._guarded(request), self._aligned(request), self.checking.watching(request["schedules"]) as found:
            made = self._storages(request, storages)
            outer = _apart(Unpacking(made.__getitem__).value(request["outer"]), request)
            create_graph = bool(request["create_graph"])
            given = [value for value in outer if value is not None]
            inputs = [value for value in held.inputs if value.requires_grad]
            pairs = [(o, g) for o, g in zip(held.outputs, outer, strict=True) if g is not None]
            if not pairs:  # all upstream gradients are undefined, as for an output that nothing depends on
                undefined: Any = torch._C._functions.UndefinedGrad
                pairs = [(undefined()(o), torch.zeros_like(o)) for o in held.outputs]
            self._set_jitter(request)
            owners = [*held.arguments, *(bytes_of_storage(storage) for storage in made)]
            differentiate = functools.partial(
                torch.autograd.grad,
                [output for output, _ in pairs],
                inputs,
                [grad for _, grad in pairs],
                create_graph=create_graph,
                retain_graph=bool(request["keep"]) or create_graph,
                allow_unused=True,
            )
            with self._computing(request, owners, self._computed) as computed:
                found_grads = defaults.called(differentiate, request["others"])
            by_input = dict(zip(map(id, inputs), found_grads, strict=True))
            grads = tuple(by_input.get(id(value)) for value in held.inputs)  # None for a constant upstream gradient
            after = Held([*held.tensors, *owners], owners, inputs=[*held.inputs, *given] if create_graph else [])
            reply = self._answer(grads, after, owners, [], request)
        reply["copied"] = _sources(computed, grads)
        return reply | self.checking.in_reply(found)

    def do_read(self, request: Json) -> Json:
        """The current bytes of results that are held."""
        packed = Packed()
        for number in request["results"]:
            packed.number(self.memory.result(number))
        return {"storages": packed.write(self.channel.outgoing)[0]}

    def do_branches(self, request: Json) -> Json:
        """The number of launches of each kernel in this process: of the port's library, or of the prototype. Also the
        choices that the library lacks, see :class:`trifold.build.library.Manifest`."""
        implementation = self.implementation(request.get("form", "plain"))
        library = implementation.kernels(self.setup.device)
        if library is not None:
            manifest = library.manifest()
            return {"launches": dict(manifest.branches), "left out": dict(manifest.left_out)}
        return {"launches": prototype_kernels.prototype_launches(self.files, self.setup.device), "left out": {}}

    def do_settings(self, request: Json) -> Json:
        """torch's process-wide settings: before the op was loaded, and now."""
        return {"before": self._settings, "now": defaults.settings()}

    def do_settle(self, request: Json) -> Json:
        """Free cached memory of the GPU; returns the number of the current GPU."""
        self.memory.forget_place()
        self.channel.outgoing.release()
        let_autograd_finish()
        torch.cuda.empty_cache()
        return {"current": torch.cuda.current_device()}

    def do_beside(self, request: Json) -> Json:
        """Run a test that must run in this process: see :mod:`trifold.isolation.beside`."""
        storages, generators = self._receive(request)
        made = self._storages(request, storages)
        args, kwargs = Unpacking(made.__getitem__, generators.__getitem__).value(
            {"list": [request["args"], request["kwargs"]]}
        )
        self._set_random_state(request)
        answer, tensors = getattr(beside, f"run_{request['what']}")(
            self.implementation(request.get("of", "plain")), args, kwargs, request
        )
        packed = Packed()
        packed_tensors = packed.pack(list(tensors))
        return {"answer": answer, "tensors": packed_tensors, "storages": packed.write(self.channel.outgoing)[0]}

    # ---------------------------------------------------------------------------------------------------- answers

    def _answer(
        self, result: Any, held: Held, owners: list[Tensor], generators: list[torch.Generator], request: Json
    ) -> Json:
        """A reply with the results' bytes, and the arguments' bytes after the call."""
        values, structure = flattened(result)
        packed = Packed()
        for owner in owners:
            packed.number(owner)
        described = [self._describe(packed, _together(value)) for value in values]
        states = [generator.get_state() for generator in generators]
        own = [] if request.get("random") is None else [_random_state(request["random"])]
        written = [self.checking.written(owner) for owner in packed.owners] if request.get("record") else []
        storages, extra = packed.write(self.channel.outgoing, [*own, *states, *written])
        held.outputs = [v for v in values if isinstance(v, Tensor) and v.requires_grad]
        if held.outputs:  # tensors saved for backward may be results
            held.tensors = [*held.tensors, *packed.owners]
        results = {}
        for number, owner in enumerate(packed.owners[len(owners) :], start=len(owners)):
            results[number] = self.memory.hold_result(owner)
        handle = self.memory.hold(held)
        return {
            "results": described,
            "structure": structure,
            "storages": storages,
            "arguments": len(owners),
            "held": results,
            "handle": handle,
            "random": extra[: len(own)],
            "generators": extra[len(own) : len(own) + len(states)],
            "written": extra[len(own) + len(states) :],
            "addresses": [owner.untyped_storage().data_ptr() for owner in packed.owners],
            "unguarded": bool(request.get("guard"))
            and any(self._is_unguarded(one) for one in packed.owners[len(owners) :]),
        }

    def _describe(self, packed: Packed, value: Any) -> Json:
        if not isinstance(value, Tensor):
            return packed.pack(value)
        if type(value) is not Tensor:
            raise TypeError(f"the result is a {type(value).__name__}, a subclass of torch.Tensor, not a torch.Tensor")
        if value.layout != torch.strided or value.is_conj() or value.is_neg():
            raise TypeError(
                f"the result's layout is {value.layout}, or it is a lazy view; it must be plain and strided"
            )
        return packed.pack(value)

    # -------------------------------------------------------------------------------------------------- arguments

    def _receive(self, request: Json) -> tuple[list[Json], dict[int, torch.Generator]]:
        generators = {}
        for number, place in enumerate(request.get("generators", ())):
            generator = torch.Generator(place["of"])
            with self.channel.incoming.reading(place) as state:
                generator.set_state(state.clone())
            generators[number] = generator
        return request["storages"], generators

    def _storages(self, request: Json, places: list[Json]) -> list[torch.UntypedStorage]:
        """Memory with the bytes of a request's arguments or upstream gradients."""
        same = request.get("place") == "same"
        return self.memory.storages(self.channel.incoming, places, request["request"], same_place=same)

    def _set_random_state(self, request: Json) -> None:
        state = request.get("random")
        if state is None:
            return
        with self.channel.incoming.reading(state) as read:
            data = read.clone()
        if state["of"] == "cpu":
            torch.set_rng_state(data)
        else:
            torch.cuda.set_rng_state(data, state["of"])

    def _set_jitter(self, request: Json) -> None:
        if request.get("jitter") is not None and request["form"] == "jittered":
            library = self.implementation("jittered").kernels(self.setup.device)
            assert library is not None
            library.set_jitter(request["jitter"])

    # ----------------------------------------------------------------------------------------------- surroundings

    @contextlib.contextmanager
    def _guarded(self, request: Json) -> Iterator[None]:
        """Within the context, memory is guarded as requested; an error for a fault on a GPU names the kernel."""
        if not request.get("guard"):
            yield
            return
        before = self._port_launches()
        try:
            with self.guard.armed(request["guard"]):
                yield
        except Exception as error:
            if not gpu_is_lost():
                raise
            # In this process, launches wait for their kernel: the last one launched is the one that faulted.
            after = self._port_launches()
            kernels = [name for name, count in after.items() if count > before.get(name, 0)]
            raise RuntimeError(
                f"{first_lines(error)}, in {either(kernels or prototype_kernels.kernels_in(error))}"
            ) from error

    def _aligned(self, request: Json) -> contextlib.AbstractContextManager[None]:
        """Where the CPU runs a GPU's kernels, align tensors as on a GPU: a kernel's sums may depend on the
        alignment."""
        of_gpu = request["form"] == "gpu paths" or (self.setup.device == "cpu" and gpu_paths())
        return guard.aligned(_GPU_ALIGNMENT) if of_gpu else contextlib.nullcontext()

    def _port_launches(self) -> dict[str, int]:
        """The number of launches of each kernel of a port on a GPU."""
        if (self.setup.implementation, self.setup.device) != ("port", "cuda"):
            return {}
        library = self.implementation().kernels("cuda")
        return {} if library is None else dict(library.manifest().branches)

    def _is_unguarded(self, tensor: Tensor) -> bool:
        """Whether the guard should watch a result's memory and does not."""
        storage = tensor.untyped_storage()
        if storage.nbytes() == 0 or storage.device.type != self.setup.device:
            return False
        if self.setup.device == "cpu" and storage.nbytes() >= _GUARDED_BYTES:
            return False
        return not self.guard.holds(storage.data_ptr())

    def _record(self, request: Json) -> None:
        """Record which memory the op's kernels write, if requested."""
        if request.get("record"):
            port = self.setup.implementation == "port"
            library = self.implementation(request["form"]).kernels("cpu") if port else None
            self.checking.record(None if library is None else library.path)

    @contextlib.contextmanager
    def _computing(self, request: Json, owners: list[Tensor], before: Computed | None) -> Iterator[Computed | None]:
        """Within the context, record what computes tensors other than kernels, if requested."""
        self._computed = None
        if not request.get("record"):
            yield None
            return
        self._computed = Computed(owners, before)
        with self._computed, self.checking.launches_told_to(self._computed.launched):
            yield self._computed


def _sources(computed: Computed | None, result: Any) -> list[str]:
    """For each result, what other than a kernel computed its numbers; empty if only kernels did."""
    if computed is None:
        return []
    values, _ = flattened(result)
    return [computed.source_of(value) if isinstance(value, Tensor) else "" for value in values]


def _apart(values: Any, request: Json) -> Any:
    """``values``, far apart if requested; a tensor that occurs twice still does."""
    if request.get("apart") is None:
        return values
    dim, stride = request["apart"]
    copies: dict[int, Tensor] = {}

    def copy(tensor: Tensor) -> Tensor:
        if id(tensor) not in copies:
            copies[id(tensor)] = far_apart(tensor, dim, stride)
        return copies[id(tensor)]

    return mapped(values, copy)


def _together(value: Any) -> Any:
    """A copy of a result whose elements are far apart, such as an upstream gradient that is passed on: its memory is
    too large to be sent."""
    is_apart = isinstance(value, Tensor) and value.device.type == "cpu" and value.untyped_storage().nbytes() >= _APART
    if not is_apart or value.numel() * value.itemsize >= _APART:
        return value
    return value.detach().clone(memory_format=torch.contiguous_format).requires_grad_(value.requires_grad)


def _random_state(place: Json) -> Tensor:
    return torch.get_rng_state() if place["of"] == "cpu" else torch.cuda.get_rng_state(place["of"])


def _in_mode(name: str, function: Callable[[], Any]) -> Any:
    """What ``function`` returns in a mode of autograd, which is one of the thread."""
    modes: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
        "grad": torch.enable_grad,
        "no grad": torch.no_grad,
        "inference": torch.inference_mode,
    }
    with modes[name]():
        return function()


def _form(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} with strides {tensor.stride()}"


def serve(server: Server) -> None:
    """Answer requests until the judge closes the connection."""
    while True:
        try:
            request = server.channel.receive()
        except Closed:
            return
        # the judge has read the last reply; release its memory before the next call frees tensors that were lent
        server.channel.outgoing.release()
        server.memory.release(request["release"])
        reply: Json
        try:
            reply = getattr(server, f"do_{request['request']}")(request)
        except BaseException as error:  # also SystemExit and KeyboardInterrupt: the judge decides what they mean
            reply = {"error": error_of(error, server.files)}
            if gpu_is_lost():
                reply["lost"] = first_lines(error)
        inspected = request.get("guard") or device_guard.allocates_whole_vectors()
        damage = server.guard.damage() if inspected else []
        try:
            server.channel.send({"id": request["id"], "damage": damage, **reply})
        except Closed:
            return


def work(setup: Setup) -> None:
    """Run as the op's process until the judge closes the connection."""
    faulthandler.enable()
    connection = socket.socket(fileno=setup.connection)
    if os.environ.pop(device_guard.WHOLE_VECTORS, ""):
        # Not before the first request: a context takes memory of the GPU.
        if not connection.recv(1, socket.MSG_PEEK):
            return  # closed without one; a context might never be made, because the tool has ended
        with contextlib.suppress(ToolchainError):  # without the guard, torch allocates as usual
            device_guard.allocate_whole_vectors()
    warnings.simplefilter("ignore")
    channel = Channel(connection, outgoing=Arena(setup.outgoing), incoming=Arena(setup.incoming))
    channel.outgoing.in_place = True  # the judge does not write into the op's memory
    if setup.device == "cuda":
        wait_asleep()
    with _counting(setup):
        serve(Server(setup, channel))
    let_autograd_finish()  # if it needs Python's lock while the interpreter ends, the process aborts


def _guard_gpus() -> str:
    """Guard all memory of GPUs in this process; returns why that is impossible, or ""."""
    try:
        device_guard.install()
    except ToolchainError as error:
        return str(error)
    return ""


def _read_kernel_seconds() -> None:
    """Remove the limit for a kernel, which the verification sets, from the environment, where an op could detect it."""
    if KERNEL_SECONDS in os.environ:
        prepare()
        del os.environ[KERNEL_SECONDS]


def _counting(setup: Setup) -> contextlib.AbstractContextManager[None]:
    """Counts the lines of a prototype within the context, if requested. A port's library counts by itself."""
    if setup.coverage is None or setup.implementation == "port":
        return contextlib.nullcontext()
    from trifold.isolation.counting import lines_of

    return lines_of(Workspace.at(Path(setup.workspace)).op(setup.op).prototype, Path(setup.coverage))


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)  # the guard is for this process, not for compilers that it starts
    own_process.import_from_here()
    given: Any = json.loads(sys.argv[1])
    work(Setup(**given))
