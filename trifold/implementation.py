"""Loads one implementation of an op, prototype or port, into a separate torch library.

The port's kernels are built when a device first needs them: until then each operator is a stub, which builds the
library, is replaced by it, and calls the operator again.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Literal

import torch

from trifold.build import BuiltLibrary, build, paths
from trifold.cells import Device, Form, ImplementationKind
from trifold.cpu import runtime
from trifold.errors import PrototypeError, SchemaError, WorkspaceError
from trifold.machine.packages import INSTALL_NUMBA
from trifold.port.wiring import Library, Operators, bind
from trifold.workspace import OpFiles, Workspace, import_file

_KEYS: dict[Device, str] = {"cpu": "CPU", "cuda": "CUDA"}


@dataclass(frozen=True)
class Implementation:
    """One implementation of one op, registered in ``torch.ops.<namespace>``.

    Attributes:
        function: the public function of ``ports/<op>.py``.
        operators: the operators that it calls.
        kernels: loads the kernels of a device, if not yet loaded; raises the build's errors.
    """

    kind: ImplementationKind
    files: OpFiles
    function: Callable[..., Any]
    operators: Operators
    kernels: Callable[[Device], BuiltLibrary | None]

    @property
    def differentiable(self) -> bool:
        """Whether ``ports/<op>.py`` states a gradient."""
        return self.operators.differentiable

    def overload(self, name: str | None = None) -> torch._ops.OpOverload[..., Any]:
        """The operator ``name`` (default: the op's own name) in ``torch.ops``."""
        return self.operators.overload(name or self.files.name)


_lock = threading.RLock()
_loaded: dict[str, Implementation] = {}
_schedule = contextlib.ExitStack()  # of the ports that were loaded with checks


def load(
    op: str,
    *,
    implementation: ImplementationKind = "port",
    device: Device = "cpu",
    workspace: Workspace | Path | str | None = None,
    checks: bool = False,
    seed: int = 0,
) -> Callable[..., Any]:
    """The public function of ``op``, on its port or its prototype.

    For CPU tensors the port is built by g++, for CUDA tensors by nvcc; each is built on first use (seconds) and cached.
    The function supports autograd and torch.compile.

    Args:
        op: a name that ``trifold list`` shows.
        implementation: ``port`` or ``prototype``.
        device: for the prototype: ``cpu`` runs it in the simulator, ``cuda`` on the GPU; a process can do only one of
            the two.
        workspace: the workspace or its folder; default: the nearest one at or above the current folder.
        checks: the port as built for the CPU with checks, for CPU tensors: a mistake in a kernel raises
            :class:`trifold.KernelFault`, or is a :class:`trifold.KernelWarning`. (A prototype has the checks of the
            simulator's options.)
        seed: of the order of blocks and threads in which such ports run from now on; 0 is the natural order.

    Raises:
        ValueError: an unknown implementation or device; checks of a prototype, or a seed without checks.
        PrototypeError: the prototype does not load, or numba was imported for the other device.
        WorkspaceError: no workspace, no such op, or a file of it is missing.
        BuildError: at the first call, if the C++ does not compile.
        SchemaError: at the first call, if the C++ functions do not match the schemas.

    >>> import torch, trifold
    >>> trifold.load("round_ste")(torch.tensor([0.2, 0.5, 0.7]))
    tensor([0., 0., 1.])
    """
    if not isinstance(workspace, Workspace):
        workspace = Workspace.find() if workspace is None else Workspace.at(workspace)
    if implementation not in ("port", "prototype"):
        raise ValueError(f"implementation is '{implementation}'; it must be port or prototype")
    if device not in _KEYS:
        raise ValueError(f"device is '{device}'; it must be cpu or cuda")
    if checks and implementation == "prototype":
        raise ValueError("checks are a port's; a prototype has those of: python -m trifold.simulator --seed N FILE.py")
    if seed < 0 or (seed and not checks):
        raise ValueError(f"seed is {seed}; it must not be negative, and needs checks=True")
    files = workspace.op(op)
    if checks:
        _schedule.close()
        _schedule.enter_context(runtime.schedules(1, seed=seed))
        return load_checked_port(files).function
    return (load_port(files) if implementation == "port" else load_prototype(files, device)).function


def load_port(files: OpFiles, form: Literal["fast", "debug", "coverage", "jittered"] = "fast") -> Implementation:
    """The port of an op, see :func:`load`; in one of the forms that compute the same. ``jittered`` is for CUDA tensors
    only."""
    with _lock:
        namespace = _namespace("port" if form == "fast" else f"{form}_port", files)
        if namespace not in _loaded:
            module, _ = _execute(files, namespace)
            kernels = _PortKernels(files, namespace, module.op, form)
            kernels.register_stubs()
            _loaded[namespace] = _implementation("port", files, module, kernels.load)
        return _loaded[namespace]


def load_checked_port(files: OpFiles, *, gpu_paths: bool | None = None) -> Implementation:
    """The port of an op as built for the CPU with checks: an error in a kernel is a :class:`trifold.KernelFault`.

    Its calls run under the schedules set by :func:`trifold.cpu.runtime.schedules`; it accepts only CPU tensors.

    Args:
        files: the op.
        gpu_paths: whether it launches the kernels that a GPU would; default: as TRIFOLD_PATHS says.
    """
    asked = paths.gpu_paths() if gpu_paths is None else gpu_paths
    with _lock:
        namespace = _namespace("checked_port", files, asked)
        if namespace not in _loaded:
            module, library = _execute(files, namespace)
            kernels = _CheckedKernels(files, f"{namespace}_kernels", module.op, asked)
            for name in module.op.schemas:
                library.registry.impl(name, functools.partial(kernels.call, name), "CPU")
            _loaded[namespace] = _implementation("port", files, module, lambda _: kernels.load())
        return _loaded[namespace]


def load_prototype(files: OpFiles, device: Device, code: Callable[[Path], CodeType] | None = None) -> Implementation:
    """The prototype of an op, for CPU tensors (Numba's simulator) or CUDA tensors (numba-cuda).

    A process runs prototypes on one of the two: Numba decides when it is imported.

    Args:
        files: the op.
        device: where it runs.
        code: compiles the file when it is first executed; default: as Python does.

    Raises:
        PrototypeError: numba is missing, was imported in the other mode, or a launch function is missing.
    """
    with _lock:
        namespace = _namespace("prototype", files)
        if namespace not in _loaded:
            prototype = prototype_module(files, device, code)
            module, library = _execute(files, namespace)
            simulates = device == "cpu"
            if simulates:
                from trifold.simulator.fresh import watching
            for name, schema in module.op.schemas.items():
                launcher = getattr(prototype, name, None)
                if launcher is None:
                    raise PrototypeError(
                        f"{files.prototype} has no launch function {name}",
                        f"{files.port} defines the operator {name}; write def {name}(...) that launches its kernel",
                    )
                launcher = launcher if schema.results else _without_result(launcher)
                for key in _KEYS.values():
                    library.registry.impl(name, watching(launcher) if simulates else launcher, key)
            _loaded[namespace] = _implementation("prototype", files, module, lambda _: None)
        return _loaded[namespace]


def _without_result(launcher: Callable[..., object]) -> Callable[..., None]:
    """A launch function as an operator that returns nothing: it may return the argument that it writes into."""

    @functools.wraps(launcher)
    def launch(*args: Any, **kwargs: Any) -> None:
        launcher(*args, **kwargs)

    return launch


def prototype_module(files: OpFiles, device: Device, code: Callable[[Path], CodeType] | None = None) -> ModuleType:
    """``prototypes/<op>.py``, executed with Numba's simulator on (``cpu``) or off (``cuda``).

    ``code`` compiles the file; default: as Python does.
    """
    simulate = device == "cpu"
    if "numba" not in sys.modules and simulate:
        os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    try:
        import numba
    except ImportError as error:
        raise PrototypeError(f"numba cannot be imported: {error}", INSTALL_NUMBA) from None
    if bool(numba.config.ENABLE_CUDASIM) != simulate:
        raise PrototypeError(
            "numba was imported before its simulator was switched on"
            if simulate
            else "numba was imported with its simulator on, which excludes the GPU",
            f"set NUMBA_ENABLE_CUDASIM={int(simulate)} before Python starts, or load the prototype first",
        )
    if simulate:
        from trifold import simulator

        simulator.install()
    name = _namespace("prototype_source", files)
    return sys.modules.get(name) or import_file(files.prototype, name, code)


def reference(files: OpFiles) -> Callable[..., Any]:
    """``reference`` of ``prototypes/<op>.py``. Imports Numba in its simulator unless it is imported already."""
    simulated = "numba" not in sys.modules or bool(sys.modules["numba"].config.ENABLE_CUDASIM)
    module = prototype_module(files, "cpu" if simulated else "cuda")
    function: Callable[..., Any] | None = getattr(module, "reference", None)
    if function is None:
        raise WorkspaceError(
            f"{files.prototype} has no function reference", "write def reference(...) in PyTorch: it says what is right"
        )
    return function


def _namespace(kind: str, files: OpFiles, gpu_paths: bool | None = None) -> str:
    asked = paths.gpu_paths() if gpu_paths is None else gpu_paths
    return f"trifold_{kind}{'_gpu_paths' if asked else ''}_{files.name}_{files.digest[:12]}"


def _execute(files: OpFiles, namespace: str) -> tuple[ModuleType, Library]:
    library = Library(namespace, torch.library.Library(namespace, "DEF"))
    bind(namespace, library)
    try:
        module = import_file(files.port, namespace)
        if not isinstance(getattr(module, "op", None), Operators):
            raise WorkspaceError(
                f"{files.port} does not register its operators", "end it with: op = wire(__name__, register)"
            )
    except BaseException:
        library.registry._destroy()
        raise
    return module, library


def _implementation(
    kind: ImplementationKind, files: OpFiles, module: ModuleType, kernels: Callable[[Device], BuiltLibrary | None]
) -> Implementation:
    function = getattr(module, files.name, None)
    if function is None or files.name not in module.op.schemas:
        what = "function" if function is None else "operator"
        raise WorkspaceError(
            f"{files.port} has no {what} named {files.name}",
            f"its public function and its main operator are both named as the file: {files.name}",
        )
    return Implementation(kind, files, function, module.op, kernels)


@dataclass
class _PortKernels:
    files: OpFiles
    namespace: str
    operators: Operators
    form: Form = "fast"
    stubs: dict[Device, torch.library.Library] = field(default_factory=dict)
    libraries: dict[Device, BuiltLibrary] = field(default_factory=dict)

    def register_stubs(self) -> None:
        for device, key in _KEYS.items():
            registry = torch.library.Library(self.namespace, "IMPL")
            for name in self.operators.schemas:
                registry.impl(name, functools.partial(self._build_and_call, device, name), key)
            self.stubs[device] = registry

    def load(self, device: Device) -> BuiltLibrary:
        with _lock:
            if device not in self.libraries:
                library = build(self.files, device, self.namespace, form=self.form_for(device))
                self.stubs.pop(device)._destroy()
                try:
                    if device == "cpu":
                        runtime.prepare()
                    library.load()
                    _compare(self.files, self.operators, library)
                except BaseException:
                    self._refuse(device)
                    raise
                self.libraries[device] = library
            return self.libraries[device]

    def form_for(self, device: Device) -> Form:
        """Coverage is counted only on the CPU."""
        return "fast" if device == "cuda" and self.form == "coverage" else self.form

    def _build_and_call(self, device: Device, name: str, *args: Any) -> Any:
        self.load(device)
        return self.operators.overload(name)(*args)

    def _refuse(self, device: Device) -> None:
        """After a failed load: calls raise an error, and never reach C++ with arguments that it would misread."""
        message = f"the {device} library of {self.files.name} does not fit its schemas and is not used"

        def refuse(*args: Any) -> Any:
            raise SchemaError(message, "see the error raised when it was loaded")

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            registry = torch.library.Library(self.namespace, "IMPL")
            for name in self.operators.schemas:
                registry.impl(name, refuse, _KEYS[device], allow_override=True)
        self.stubs[device] = registry


@dataclass
class _CheckedKernels:
    """The operators of a checked port, in a separate namespace: those that Python calls run them with checks."""

    files: OpFiles
    namespace: str
    operators: Operators
    gpu_paths: bool
    registry: torch.library.Library | None = None
    library: BuiltLibrary | None = None

    def load(self) -> BuiltLibrary:
        with _lock:
            if self.library is None:
                library = build(self.files, "cpu", self.namespace, form="checked", gpu_paths=self.gpu_paths)
                registry = torch.library.Library(self.namespace, "DEF")
                try:
                    for schema in self.operators.schemas.values():
                        registry.define(schema.text)
                    runtime.prepare()
                    _compare(self.files, self.operators, library)
                except BaseException:
                    registry._destroy()
                    raise
                self.registry, self.library = registry, library
            return self.library

    def call(self, name: str, *args: Any) -> Any:
        self.load()
        kernel = getattr(getattr(torch.ops, self.namespace), name).default

        # Each schedule begins with the same contents of the tensors that the operator overwrites.
        written = [args[i] for i in self.operators.schemas[name].written] if runtime.schedule_count() > 1 else []
        contents = [(tensor, tensor.clone()) for tensor in _tensors_of(written)]

        def call() -> Any:
            for tensor, content in contents:
                tensor.copy_(content)
            with runtime.fresh_memory().watched():
                # The kernel itself: through the dispatcher, modes that watch torch's operators would see this operator
                # too.
                return kernel._op_dk(torch._C.DispatchKey.CPU, *args)

        return runtime.run_checked(call)


def _tensors_of(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among the values, and in lists among them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors_of(value)


def _compare(files: OpFiles, operators: Operators, library: BuiltLibrary) -> None:
    declared = {name: schema.types for name, schema in operators.schemas.items()}
    require_schemas(declared, library.manifest().implementations, files.port, files.binding)


def require_schemas(
    declared: Mapping[str, str], implemented: Mapping[str, str], port: Path | str, binding: Path | str
) -> None:
    """Raise :class:`SchemaError` if the operators that ``port`` defines are not those that ``binding`` implements.

    Args:
        declared, implemented: the operators' types by name: ``"add": "(Tensor, Tensor) -> Tensor"``.
        port, binding: the two files, for the message.
    """
    for name in sorted(declared.keys() | implemented.keys()):
        ours, theirs = declared.get(name), implemented.get(name)
        if ours == theirs:
            continue
        if theirs is None:
            problem = f"{binding} implements no operator {name}, which {port} defines"
        elif ours is None:
            problem = f"{port} defines no operator {name}, which {binding} implements"
        else:
            problem = f"the schema of {name} in {port} is {ours}, but the C++ function in {binding} is {theirs}"
        raise SchemaError(problem, "make the schema and the C++ function agree: same arguments, same order")
