"""The judge's side of an op's process: a function that looks like the op's own, and computes where the op is.

What it is given travels as bytes, and so does what comes back: results, the arguments as the call left them, the
generator's state. It takes part in autograd, gradients of gradients included. Memory that results share with arguments,
or with results of earlier calls that still live, is shared here as well.
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

from trifold.findings import Finding, from_json
from trifold.isolation import guard
from trifold.isolation.channel import LEAST_ON_GPU, Arena, Channel, Closed
from trifold.isolation.tensors import Packed, Unpacking, bytes_of, bytes_of_storage, tensors_in
from trifold.verification.remote_autograd import Answer, Call, Handle
from trifold.verification.remote_errors import OpDied, cause_of_death, raised
from trifold.verification.remote_process import START_S, Process, Start, kill_group, wait_for

Json = Any

_EXIT_S = 20.0  # to write what was counted, after the connection has closed
_AT_ONCE = 2**28  # bytes that are compared with as many


@dataclass(frozen=True)
class Options:
    """How calls run.

    Attributes:
        form: ``plain``, ``checked`` (a port with checks), ``gpu paths`` (the same with the kernels that a GPU takes),
            ``jittered`` (a port with pauses) or ``compiled``.
        guard: the placement of memory under the guard allocator; None: not guarded.
        schedules: the first seed and how many orders of blocks and threads, with all checks; None: without.
        jitter: the seed of the pauses of a jittered port; 0: it makes none.
        record: note which bytes the op's kernels write.
        native: kernels of a prototype in the simulator run as native code (:mod:`trifold.simulator.compiled`), or the
            call raises.
        place: ``same``: the arguments lie where those of the call before lay, and no version counter says that they
            have changed.
        other_defaults: torch's default dtype is another one than usual, as an application may have set it.
    """

    form: str = "plain"
    guard: guard.Mode | None = None
    schedules: tuple[int, int] | None = None
    jitter: int | None = None
    record: bool = False
    native: bool = False
    place: str = ""
    other_defaults: bool = False


@dataclass
class Told:
    """What the op's process said beside results, since this was made.

    Attributes:
        findings: of the engine, that ended no launch: warnings, lints and those that the user accepts.
        allowed: comments that allow findings of the kernels that ran; fields of an Acceptance.
        damage: of the guard allocator.
        unguarded: whether a result lay in memory that the guard does not watch.
        written: for each result's storage, by its address here: for each byte, whether an op's kernel wrote it last.
        copied: by the same address, who computed the very numbers of a result, if no kernel did.
        lay: where the memory of each call lay there, and of each backward.
    """

    findings: list[Finding] = field(default_factory=list)
    allowed: list[dict[str, Any]] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    unguarded: bool = False
    written: dict[int, Tensor] = field(default_factory=dict)
    copied: dict[int, str] = field(default_factory=dict)
    lay: list[Addresses] = field(default_factory=list)


@dataclass(frozen=True)
class Addresses:
    """The memory of a call in the op's process, as (address, bytes).

    Attributes:
        arguments: in order; of a backward those of its call, then the upstream gradients.
        results: other memory than that of arguments.
    """

    arguments: tuple[tuple[int, int], ...]
    results: tuple[tuple[int, int], ...]


class OpProcess:
    """The process that runs an implementation of an op. It starts when it is first needed, and again after its death.

    Attributes:
        timeout: seconds that one answer may take.
        element_bytes: of the case that runs, for the words of an access outside its arguments.
        deaths: of processes; what such a process had counted is lost.
        announced: is told the process's number, for whoever must end it.
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
        self.told = Told()
        self._process: Process | None = None
        self._channel: Channel | None = None
        self._output: IO[bytes] | None = None
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self.released: list[int] = []
        self._results: dict[int, _Result] = {}
        self.deaths = 0

    # ------------------------------------------------------------------------------------------------- what is asked

    def load(self, *, build: bool, form: str = "plain") -> Json:
        """Load the op there, and build it; what the process says of it."""
        packed = Packed()
        if self._device.type == "cuda":
            self._open().outgoing.on_gpu = True
            packed.number(torch.empty(LEAST_ON_GPU, dtype=torch.uint8, device=self._device))
        limit = max(self.timeout, START_S)
        reply = self.request("load", packed=packed, build=build, form=form, limit=limit)
        self._open().outgoing.on_gpu = reply["maps"]
        return reply

    def function(self, *args: Any, **kwargs: Any) -> Any:
        """Call the op's public function, in the mode of autograd that holds here."""
        inputs = list({id(value): value for value in tensors_in((args, kwargs)) if value.requires_grad}.values())
        if not torch.is_grad_enabled() or not inputs:
            answer = self.call(args, kwargs, _mode())
            if any(answer.requires):
                raise RuntimeError("a result requires a gradient, though none is asked for: its graph keeps memory")
            return answer.result()
        answers: list[Answer] = []
        outputs = Call.apply(self, args, kwargs, answers, *inputs)  # type: ignore[no-untyped-call]
        return answers[0].result(outputs)

    @contextlib.contextmanager
    def running(self, **options: Any) -> Iterator[Told]:
        """Calls within it have other :class:`Options`; gives what the process tells meanwhile."""
        before, self.options = self.options, replace(self.options, **options)
        outer, self.told = self.told, Told()
        try:
            yield self.told
        finally:
            self.options, self.told = before, outer

    def beside(self, what: str, args: Sequence[Any], kwargs: dict[str, Any], **more: Any) -> tuple[Json, list[Tensor]]:
        """What :mod:`trifold.isolation.beside` calls ``run_<what>``: what it tells, and copies of its tensors."""
        packed = Packed()
        described = {"args": packed.pack(list(args)), "kwargs": packed.pack(dict(kwargs))}
        reply = self.request("beside", packed=packed, what=what, **described, **more)
        storages = [self._storage(place) for place in reply["storages"]]
        return reply["told"], Unpacking(storages.__getitem__).value(reply["tensors"])

    def branches(self, form: str = "plain") -> dict[str, int]:
        """How often each kernel was launched."""
        launches: dict[str, int] = self.request("branches", form=form)["launches"]
        return launches

    def settings(self) -> tuple[dict[str, str], dict[str, str]]:
        """torch's settings there: before the op was loaded, and now."""
        reply = self.request("settings")
        return reply["before"], reply["now"]

    def left_out(self, form: str = "plain") -> dict[str, str]:
        """The choices of constants that a port's library lacks, each with one that has the same code."""
        choices: dict[str, str] = self.request("branches", form=form)["left out"]
        return choices

    def changed_since(self, results: Sequence[Tensor]) -> list[int]:
        """Which of these results, in the op's process, do not hold any more what they held when they came."""
        numbers = {id(result): number for number, kept in self._results.items() for result in kept.alive()}
        positions = [p for p, result in enumerate(results) if id(result) in numbers]
        asked = list(dict.fromkeys(numbers[id(results[p])] for p in positions))
        reply = self.request("read", results=asked)
        places = dict(zip(asked, reply["storages"], strict=True))
        return [p for p in positions if not self._holds(places[numbers[id(results[p])]], bytes_of(results[p]))]

    def settle(self) -> int:
        """Give memory of the GPU that nobody needs back, there and here; says which GPU is current there."""
        if self._channel is not None:
            self._channel.outgoing.release()
        torch.cuda.empty_cache()
        number: int = self.request("settle")["current"]
        return number

    # --------------------------------------------------------------------------------------------------- a request

    def request(self, name: str, *, packed: Packed | None = None, limit: float | None = None, **payload: Any) -> Json:
        """Ask, and wait for the answer.

        Raises:
            OpDied: there is none.
            Exception: what the op raised, as an exception of the same name.
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
                "other defaults": options.other_defaults,
            } | payload
            builds = options.native or options.form == "compiled"  # by compilers that a busy machine slows down
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
            raise OpDied(f"no answer for {limit:g} s: the kernel hangs, or is too slow{asked}") from None
        except Closed:
            raise OpDied(self._cause_of_death()) from None
        except ValueError:
            self._end()
            raise OpDied("the op's process wrote to the judge's connection what is no answer") from None
        self.told.damage += reply.get("damage", ())
        if "lost" in reply:
            self._end()
            raise OpDied(reply["lost"])
        if "error" in reply:
            raise raised(reply["error"])
        self.told.findings += [from_json(data) for data in reply.get("findings", ())]
        self.told.allowed += [each for each in reply.get("allowed", ()) if each not in self.told.allowed]
        self.told.unguarded |= bool(reply.get("unguarded"))
        return reply

    def _require_silence(self, channel: Channel) -> None:
        """No answer comes before its question."""
        ready, _, _ = select.select([channel.socket], [], [], 0)
        if ready and channel.socket.recv(1, socket.MSG_PEEK):
            raise ValueError("an answer before the question")

    # -------------------------------------------------------------------------------------------------- the process

    @contextlib.contextmanager
    def another(
        self, under: Sequence[str] = (), environment: Mapping[str, str] = MappingProxyType({}), *, slower: float = 1.0
    ) -> Iterator[OpProcess]:
        """A second process of the op, which ends with the context; it starts when it is first asked something.

        Args:
            under, environment: see :class:`Start`.
            slower: the factor on all time limits.
        """
        start = functools.partial(self._start, under=under, environment=environment)
        other = OpProcess(
            start, slower * self.timeout, str(self._device), self.announced, exit_s=max(1.0, slower) * self._exit_s
        )
        try:
            yield other
        finally:
            other.close()
            if self._process is not None:  # the one that was announced last is ended with the judge
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
            self.released, self._results = [], {}  # numbers of the process before are not those of this one
        return self._channel

    def _end(self) -> int:
        """End the process; says how it ended."""
        assert self._process is not None and self._channel is not None
        self.deaths += 1
        kill_group(self._process.pid)
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
        """End the process, as there is no more to ask. It may write what it counted, for a while.

        Returns:
            "" where it ended with status 0, else how it ended, in words.
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
        packed = Packed()
        described = {"args": packed.pack(list(args)), "kwargs": packed.pack(dict(kwargs))}
        reply = self.request("call", packed=packed, mode=mode, **described)
        return self._take(reply, packed)

    def vjp(self, answer: Answer, outer: Sequence[Tensor | None], *, create_graph: bool, keep: bool) -> Answer:
        """Gradients of an answer's results, for upstream gradients of them.

        Args:
            create_graph: the gradients can be differentiated: for the arguments, and for those upstream gradients that
                require one.
        """
        packed = Packed()
        described = packed.pack(
            [v if v is None else v.detach().requires_grad_(create_graph and v.requires_grad) for v in outer]
        )
        reply = self.request(
            "backward", packed=packed, handle=answer.handle, outer=described, create_graph=create_graph, keep=keep
        )
        return self._take(reply, packed, answer.arguments)

    def _take(self, reply: Json, packed: Packed, before: Sequence[Tensor] = ()) -> Answer:
        """What came back: arguments get the bytes that they have there, results their tensors."""
        arguments = [*before, *packed.owners]
        lay = tuple((at, place["bytes"]) for at, place in zip(reply["addresses"], reply["storages"], strict=True))
        self.told.lay.append(Addresses(lay[: reply["arguments"]], lay[reply["arguments"] :]))
        storages: list[torch.UntypedStorage] = []
        for number, place in enumerate(reply["storages"]):
            if number < reply["arguments"]:
                owner = arguments[number]
                memory = bytes_of(owner.detach())
                if not self._holds(place, memory):
                    self._copy(place, memory)
                storages.append(owner.untyped_storage())
            else:
                storages.append(self._result_storage(reply["held"][str(number)], place))
        for generator, place in zip(packed.generators, reply["generators"], strict=True):
            generator.set_state(self._read(place))
        for place in reply["random"]:
            _set_random_state(_device_of(packed, self._device), self._read(place))
        for storage, place in zip(storages, reply["written"], strict=False):
            if place["bytes"]:
                self.told.written[storage.data_ptr()] = self._read(place).bool()
        values: list[Any] = []
        requires: list[bool] = []
        for one in reply["results"]:
            is_tensor = isinstance(one, dict) and "tensor" in one
            requires.append(bool(is_tensor and one["grad"]))
            values.append(Unpacking(storages.__getitem__).value({**one, "grad": False} if is_tensor else one))
            if is_tensor and one["tensor"] >= reply["arguments"]:
                self._keep(reply["held"][str(one["tensor"])], values[-1])
        for value, source in zip(values, reply.get("copied", ()), strict=False):
            if source:
                self.told.copied[value.untyped_storage().data_ptr()] = source
        return Answer(self, tuple(values), reply["structure"], requires, Handle(self, reply["handle"]), arguments)

    def _storage(self, place: Json) -> torch.UntypedStorage:
        storage = torch.empty(place["bytes"], dtype=torch.uint8, device=place["device"])
        self._copy(place, storage)
        return storage.untyped_storage()

    def _result_storage(self, number: int, place: Json) -> torch.UntypedStorage:
        """A result's memory: that of an earlier result, where it is the same memory there."""
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
            into.copy_(data)

    def _holds(self, place: Json, memory: Tensor) -> bool:
        """Whether ``memory`` has the bytes that came."""
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


def _mode() -> str:
    if torch.is_inference_mode_enabled():
        return "inference"
    return "grad" if torch.is_grad_enabled() else "no grad"


def _device_of(packed: Packed, usual: torch.device) -> torch.device:
    """The device whose generator a call draws from: of its arguments, where these are on a GPU."""
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
