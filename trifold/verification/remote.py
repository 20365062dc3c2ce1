"""The judge's side of an op's process: a function with the op's signature that computes in the op's process.

Arguments are sent as bytes. Results, the arguments after the call and the generator's state are received as bytes. The
function takes part in autograd, including second derivatives. Where results share memory with arguments, or with
results of earlier calls that are still alive, they do so in this process as well.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import select
import socket
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import IO, Any

import torch
from torch import Tensor

from trifold.findings import from_json
from trifold.isolation.channel import LEAST_ON_GPU, Arena, Channel, Closed
from trifold.isolation.device_memory import staged
from trifold.isolation.tensors import Packed, Unpacking, bytes_of, bytes_of_storage, tensors_in
from trifold.spec.call import Path
from trifold.verification.observations import Addresses, Observations
from trifold.verification.remote_autograd import Answer, Call, Handle
from trifold.verification.remote_errors import OpDied, OpHangs, cause_of_death, raised
from trifold.verification.remote_options import Options
from trifold.verification.remote_process import START_S, Process, Start, kill_session, wait_for
from trifold.verification.upstream import Backward

Json = Any

_EXIT_S = 20.0  # for the process to write its counts, after the connection has closed
_AT_ONCE = 2**28  # bytes that are compared in one step


class OpProcess:
    """The process that runs an implementation of an op. It is started on first use, and again after its death.

    Attributes:
        timeout: seconds that one answer may take.
        element_bytes: bytes of an element in the running case, to describe accesses outside of its arguments.
        deaths: the number of processes that died; their counts are lost.
        last_backward: the last backward pass of a call in the running case; None: there was none, or it was too large.
        announced: called with the number of each process that starts, so that it can be ended from elsewhere.
    """

    def __init__(
        self,
        start: Start,
        timeout: float,
        device: str = "cpu",
        announced: Callable[[int], None] = lambda pid: None,
        *,
        exit_s: float = _EXIT_S,
    ) -> None:
        self._start, self.timeout, self.announced = start, timeout, announced
        self._exit_s = exit_s
        self._device = torch.device(device)
        self.element_bytes = 0
        self.options = Options()
        self.observed = Observations()
        self._process: Process | None = None
        self._channel: Channel | None = None
        self._output: IO[bytes] | None = None
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self.released: list[int] = []
        self._results: dict[int, _Result] = {}
        self.deaths = 0
        self.last_backward: Backward | None = None

    # ----------------------------------------------------------------------------------------------------- requests

    def start(self) -> None:
        """Start the process if it does not run, and announce it, so that it is the one to be ended from elsewhere."""
        with self._lock:
            self._open()
            assert self._process is not None
            self.announced(self._process.pid)

    def build(self, form: str) -> None:
        """Build another form of the port in the process. Unlike :meth:`load`, this makes no context on a GPU."""
        self.request("load", build=True, form=form, limit=max(self.timeout, START_S))

    def load(self, *, build: bool, form: str = "plain") -> Json:
        """Load the op in the process, and build it; returns the process's description of it."""
        packed = Packed()
        if self._device.type == "cuda":
            self._open().outgoing.on_gpu = True
            packed.number(torch.empty(LEAST_ON_GPU, dtype=torch.uint8, device=self._device))
        limit = max(self.timeout, START_S)
        reply = self.request("load", packed=packed, build=build, form=form, limit=limit)
        self._open().outgoing.on_gpu = reply["maps"]
        return reply

    def function(self, *args: Any, **kwargs: Any) -> Any:
        """Call the op's public function in the process, in this thread's mode of autograd."""
        inputs = list({id(value): value for value in tensors_in((args, kwargs)) if value.requires_grad}.values())
        if not torch.is_grad_enabled() or not inputs:
            answer = self.call(args, kwargs, _mode())
            if any(answer.requires):
                raise RuntimeError("a result requires a gradient, but none was requested: its graph holds memory")
            return answer.result()
        answers: list[Answer] = []
        outputs = Call.apply(self, args, kwargs, answers, *inputs)  # type: ignore[no-untyped-call]
        answers[0].asked = _paths_with_gradient(args, kwargs)
        return answers[0].result(outputs)

    @contextlib.contextmanager
    def running(self, **options: Any) -> Iterator[Observations]:
        """Calls within the context run with other :class:`Options`; yields what the process observes in them."""
        before, self.options = self.options, replace(self.options, **options)
        outer, self.observed = self.observed, Observations()
        try:
            yield self.observed
        finally:
            self.options, self.observed = before, outer

    def beside(self, what: str, args: Sequence[Any], kwargs: dict[str, Any], **more: Any) -> tuple[Json, list[Tensor]]:
        """Run ``run_<what>`` of :mod:`trifold.isolation.beside` in the process; returns its answer and its tensors."""
        packed = Packed()
        described = {"args": packed.pack(list(args)), "kwargs": packed.pack(dict(kwargs))}
        reply = self.request("beside", packed=packed, what=what, **described, **more)
        storages = [self._storage(place) for place in reply["storages"]]
        return reply["answer"], Unpacking(storages.__getitem__).value(reply["tensors"])

    def branches(self, form: str = "plain") -> dict[str, int]:
        """The number of launches of each kernel."""
        launches: dict[str, int] = self.request("branches", form=form)["launches"]
        return launches

    def settings(self) -> tuple[dict[str, str], dict[str, str]]:
        """torch's settings in the process: before the op was loaded, and now."""
        reply = self.request("settings")
        return reply["before"], reply["now"]

    def left_out(self, form: str = "plain") -> dict[str, str]:
        """The choices that a port's library has no kernels for, each with a choice whose kernels have the same code."""
        choices: dict[str, str] = self.request("branches", form=form)["left out"]
        return choices

    def changed_since(self, results: Sequence[Tensor]) -> list[int]:
        """The positions of those results whose memory in the process has changed since they were received."""
        numbers = {id(result): number for number, kept in self._results.items() for result in kept.alive()}
        positions = [p for p, result in enumerate(results) if id(result) in numbers]
        asked = list(dict.fromkeys(numbers[id(results[p])] for p in positions))
        reply = self.request("read", results=asked)
        place_of = dict(zip(asked, reply["storages"], strict=True))
        places = [place_of[numbers[id(results[p])]] for p in positions]
        same = self._hold(places, [bytes_of(results[p]) for p in positions])
        return [p for p, unchanged in zip(positions, same, strict=True) if not unchanged]

    def settle(self) -> int:
        """Free cached memory of the GPU in both processes; returns the number of the op's current GPU."""
        if self._channel is not None:
            self._channel.outgoing.release()
        torch.cuda.empty_cache()
        number: int = self.request("settle")["current"]
        return number

    # --------------------------------------------------------------------------------------------------- a request

    def request(self, name: str, *, packed: Packed | None = None, limit: float | None = None, **payload: Any) -> Json:
        """Send a request, and wait for the answer.

        Args:
            packed: the tensors and generators that the request refers to.
            limit: seconds to wait; None: ``timeout``, or more where the request compiles something.

        Raises:
            OpDied: the process died, does not answer, or answers what is no reply.
            Exception: the op raised it; here it has the same name and message.
        """
        with self._lock:
            channel = self._open()
            packed = packed or Packed()
            states = [generator.get_state() for generator in packed.generators]
            random = _random_places(_device_of(packed, self._device))
            storages, extra = packed.write(channel.outgoing, [*random.values(), *states])
            of_random = dict(zip(random, extra, strict=False))
            generators = [
                place | {"of": str(g.device)} for place, g in zip(extra[len(random) :], packed.generators, strict=True)
            ]
            number = next(self._numbers)
            released = list(self.released)
            self.released.clear()
            options = self.options
            message = {
                "id": number,
                "request": name,
                "release": released,
                "storages": storages,
                "generators": generators,
                "random": next(({**place, "of": of} for of, place in of_random.items()), None),
                "form": options.form,
                "guard": options.guard,
                "schedules": options.schedules,
                "jitter": options.jitter,
                "record": options.record,
                "native": options.native,
                "place": options.place,
                "others": options.others,
                "apart": options.apart,
            } | payload
            builds = options.native or options.form == "compiled"  # by compilers, which are slow on a busy machine
            return self._answer(channel, message, limit or (max(self.timeout, START_S) if builds else self.timeout))

    def _answer(self, channel: Channel, message: Json, limit: float) -> Json:
        channel.socket.settimeout(limit)
        try:
            self._require_silence(channel)
            channel.send(message)
            reply = channel.receive()
            if reply.get("id") != message["id"]:
                raise ValueError("an answer to no question")
        except TimeoutError:
            self._end()
            asked = f" for --timeout {self.timeout:g}" if limit == self.timeout else ""
            raise OpHangs(f"no answer for {limit:g} s: the kernel hangs, or is too slow{asked}") from None
        except Closed:
            raise OpDied(self._cause_of_death()) from None
        except ValueError:
            self._end()
            raise OpDied("the op's process wrote to the judge's connection what is no answer") from None
        self.observed.damage += reply.get("damage", ())
        if "lost" in reply:
            self._end()
            raise OpDied(reply["lost"])
        if "error" in reply:
            raise raised(reply["error"])
        self.observed.findings += [from_json(data) for data in reply.get("findings", ())]
        self.observed.allowed += [each for each in reply.get("allowed", ()) if each not in self.observed.allowed]
        self.observed.unguarded |= bool(reply.get("unguarded"))
        return reply

    def _require_silence(self, channel: Channel) -> None:
        """Raises ValueError if the process has already written something."""
        ready, _, _ = select.select([channel.socket], [], [], 0)
        if ready and channel.socket.recv(1, socket.MSG_PEEK):
            raise ValueError("an answer before the question")

    # -------------------------------------------------------------------------------------------------- the process

    @contextlib.contextmanager
    def another(
        self, under: Sequence[str] = (), environment: Mapping[str, str] = MappingProxyType({}), *, slower: float = 1.0
    ) -> Iterator[OpProcess]:
        """A second process of the op, started on first use, which ends with the context.

        Args:
            under, environment: see :class:`Start`.
            slower: a factor for all time limits.
        """
        start = functools.partial(self._start, under=under, environment=environment)
        other = OpProcess(
            start, slower * self.timeout, str(self._device), self.announced, exit_s=max(1.0, slower) * self._exit_s
        )
        try:
            yield other
        finally:
            other.close()
            if self._process is not None:  # only the last one announced is ended with the judge
                self.announced(self._process.pid)

    def _open(self) -> Channel:
        if self._channel is None:
            ours, theirs = socket.socketpair()
            outgoing, incoming = Arena(), Arena()
            output = tempfile.TemporaryFile()  # noqa: SIM115 -- read after the process has ended
            with theirs:
                self._process = self._start(theirs.fileno(), outgoing.descriptor, incoming.descriptor, output)
            self._output = output
            self._channel = Channel(ours, outgoing, incoming)
            self.announced(self._process.pid)
            self.released, self._results = [], {}  # the new process numbers its results anew
        return self._channel

    def _end(self) -> int:
        """Kill the process; returns its exit status."""
        assert self._process is not None and self._channel is not None
        self.deaths += 1
        kill_session(self._process.pid)
        status = self._process.wait()
        self._channel.close()
        self._process = self._channel = None
        return status

    def _cause_of_death(self) -> str:
        assert self._process is not None and self._channel is not None and self._output is not None
        try:
            status = wait_for(self._process, self._exit_s)
        except TimeoutError:
            self._end()
            return "the op's process closed its connection and went on"
        self.deaths += 1
        self._channel.close()
        self._process = self._channel = None
        return cause_of_death(status, self._output, self.element_bytes)

    def close(self) -> str:
        """End the process, after it has written its counts.

        Returns:
            "" if it ended with status 0, else how it ended, in words.
        """
        if self._channel is None or self._process is None:
            return ""
        assert self._output is not None
        self._channel.socket.close()
        try:
            status = wait_for(self._process, self._exit_s)
        except TimeoutError:
            self._end()
            return f"the process did not end within {self._exit_s:g} s"
        self._channel.close()
        self._process = self._channel = None
        return cause_of_death(status, self._output, self.element_bytes) if status else ""

    # ----------------------------------------------------------------------------------------------- calls, results

    def call(self, args: Any, kwargs: Any, mode: str) -> Answer:
        """Call the op's function; ``mode`` is ``grad``, ``no grad`` or ``inference``."""
        packed = Packed()
        described = {"args": packed.pack(list(args)), "kwargs": packed.pack(dict(kwargs))}
        reply = self.request("call", packed=packed, mode=mode, **described)
        return self._received(reply, packed)

    def vjp(self, answer: Answer, outer: Sequence[Tensor | None], *, create_graph: bool, keep: bool) -> Answer:
        """The gradients of a call, for upstream gradients of its results.

        Args:
            outer: the upstream gradients.
            create_graph: the gradients can be differentiated by the arguments, and by those upstream gradients that
                require a gradient.
            keep: keep the graph for another backward pass.
        """
        if answer.asked and not create_graph:
            of_results = [
                (number, value)
                for number, (value, requires) in enumerate(zip(answer.tensors, answer.requires, strict=True))
                if requires
            ]
            given = [(number, value, grad) for (number, value), grad in zip(of_results, outer, strict=True)]
            self.last_backward = Backward.of(answer.asked, given)
        packed = Packed()
        described = packed.pack(
            [v if v is None else v.detach().requires_grad_(create_graph and v.requires_grad) for v in outer]
        )
        reply = self.request(
            "backward", packed=packed, handle=answer.handle, outer=described, create_graph=create_graph, keep=keep
        )
        return self._received(reply, packed, answer.arguments)

    def _received(self, reply: Json, packed: Packed, before: Sequence[Tensor] = ()) -> Answer:
        """Copy the arguments' bytes that were received into ``before`` and ``packed``; make tensors of the results."""
        arguments = [*before, *packed.owners]
        places, count = reply["storages"], reply["arguments"]
        memory_of = tuple((at, place["bytes"]) for at, place in zip(reply["addresses"], places, strict=True))
        self.observed.addresses.append(Addresses(memory_of[:count], memory_of[count:]))
        memory = [bytes_of(owner.detach()) for owner in arguments[:count]]
        for number, same in enumerate(self._hold(places[:count], memory)):
            if not same:
                self._copy(places[number], memory[number])
        storages = [owner.untyped_storage() for owner in arguments[:count]]
        for number, place in enumerate(places[count:], start=count):
            storages.append(self._result_storage(reply["held"][str(number)], place))
        for generator, place in zip(packed.generators, reply["generators"], strict=True):
            generator.set_state(self._read(place))
        for place in reply["random"]:
            _set_random_state(_device_of(packed, self._device), self._read(place))
        for storage, place in zip(storages, reply["written"], strict=False):
            if place["bytes"]:
                self.observed.written[storage.data_ptr()] = self._read(place).bool()
        values: list[Any] = []
        requires: list[bool] = []
        for one in reply["results"]:
            is_tensor = isinstance(one, dict) and "tensor" in one
            requires.append(bool(is_tensor and one["grad"]))
            values.append(Unpacking(storages.__getitem__).value({**one, "grad": False} if is_tensor else one))
            if is_tensor and one["tensor"] >= count:
                self._keep(reply["held"][str(one["tensor"])], values[-1])
        for value, source in zip(values, reply.get("copied", ()), strict=False):
            if source:
                self.observed.copied[value.untyped_storage().data_ptr()] = source
        return Answer(self, tuple(values), reply["structure"], requires, Handle(self, reply["handle"]), arguments)

    def _storage(self, place: Json) -> torch.UntypedStorage:
        storage = torch.empty(place["bytes"], dtype=torch.uint8, device=place["device"])
        self._copy(place, storage)
        return storage.untyped_storage()

    def _result_storage(self, number: int, place: Json) -> torch.UntypedStorage:
        """Memory for a result: that of an earlier result, if the two share memory in the process."""
        kept = self._results.get(number)
        if kept is None or kept.storage.nbytes() != place["bytes"]:
            kept = self._results[number] = _Result(self._storage(place))
        else:
            self._copy(place, bytes_of_storage(kept.storage))
        return kept.storage

    def _keep(self, number: int, tensor: Tensor) -> None:
        self._results[number].tensors.append(weakref.ref(tensor))
        weakref.finalize(tensor, _forget, weakref.ref(self), number)

    def forget_result(self, number: int) -> None:
        kept = self._results.get(number)
        if kept is not None and not kept.alive():
            del self._results[number]
            self.released.append(number)

    def _read(self, place: Json) -> Tensor:
        assert self._channel is not None
        with self._channel.incoming.reading(place) as data:
            return data.clone()

    def _copy(self, place: Json, into: Tensor) -> None:
        assert self._channel is not None
        with self._channel.incoming.reading(place) as data:
            into.copy_(data, non_blocking=True)  # of memory that is not pinned: it may change once this returns

    def _hold(self, places: Sequence[Json], memory: Sequence[Tensor]) -> list[bool]:
        """For each block of memory, whether it has the bytes that were received at its place."""
        return [self._holds(place, block) for place, block in zip(places, staged(memory), strict=True)]

    def _holds(self, place: Json, memory: Tensor) -> bool:
        assert self._channel is not None
        with self._channel.incoming.reading(place) as data:
            parts = zip(data.split(_AT_ONCE), memory.split(_AT_ONCE), strict=True)
            return all(torch.equal(there.to(here.device), here) for there, here in parts)


@dataclass
class _Result:
    storage: torch.UntypedStorage
    tensors: list[weakref.ref[Tensor]] = field(default_factory=list)

    def alive(self) -> list[Tensor]:
        return [tensor for tensor in (reference() for reference in self.tensors) if tensor is not None]


def _forget(process: weakref.ref[OpProcess], number: int) -> None:
    owner = process()
    if owner is not None:
        owner.forget_result(number)


def _paths_with_gradient(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Path, ...]:
    """The paths of the arguments that require a gradient."""
    found: list[Path] = []
    places: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    for place, value in places:
        if isinstance(value, list | tuple):
            found += ((place, i) for i, one in enumerate(value) if isinstance(one, Tensor) and one.requires_grad)
        elif isinstance(value, Tensor) and value.requires_grad:
            found.append((place,))
    return tuple(found)


def _mode() -> str:
    if torch.is_inference_mode_enabled():
        return "inference"
    return "grad" if torch.is_grad_enabled() else "no grad"


def _device_of(packed: Packed, usual: torch.device) -> torch.device:
    """The device whose generator a call uses: the GPU of its arguments, else ``usual``."""
    return next((owner.device for owner in packed.owners if owner.is_cuda), usual)


def _random_places(device: torch.device) -> dict[str, Tensor]:
    if device.type == "cuda":
        return {str(device): torch.cuda.get_rng_state(device)}
    return {"cpu": torch.get_rng_state()}


def _set_random_state(device: torch.device, state: Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
