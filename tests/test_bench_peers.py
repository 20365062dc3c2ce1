"""Other libraries are called as their sources say, leave what others read alone, and are named where they are absent.

In their place stand modules with their functions' signatures, which compute with torch. Where the libraries are there,
and a GPU, the same is asked of them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from trifold.bench import run
from trifold.bench.entrants import Entrant, competitor, entrants
from trifold.bench.peers import PACKAGES, Pass, PeerAbsent, absent, has, peer
from trifold.bench.rows import EAGER, LIGER, PORT, QUACK, ROOFLINE
from trifold.bench.timing import Competitor, Failure, Result, Timing
from trifold.spec.benchmark import Benchmark, Case

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")

REFERENCES: dict[str, Callable[..., Tensor]] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "layer_norm": lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5),
    "rms_norm": lambda x, weight: F.rms_norm(x, x.shape[-1:], weight, 1e-6),
    "swiglu": lambda gate, up: F.silu(gate) * up,
    "cross_entropy": F.cross_entropy,
}
ALL = [(package, op) for package in PACKAGES for op in REFERENCES if has(package, op)]


def arguments(op: str, device: str = "cpu", rows: int = 4, columns: int = 16) -> tuple[Tensor, ...]:
    generator = torch.Generator(device).manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, generator=generator)

    if op == "cross_entropy":
        target = torch.randint(columns, (rows,), device=device, generator=generator)
        target[1] = -100
        return normal(rows, columns), target
    vectors = {"layer_norm": 2, "rms_norm": 1}.get(op, 0)
    return (*(normal(rows, columns) for _ in range(2 if op == "swiglu" else 1)), *(normal(columns),) * vectors)


# ----------------------------------------------------------------------------- modules in the libraries' place


class SwigluInPlace(torch.autograd.Function):
    """As Liger's Triton kernel: the gradients overwrite gate and up."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return F.silu(a) * b

    @staticmethod
    def backward(ctx: Any, dc: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        with torch.enable_grad():
            x, y = a.detach().clone().requires_grad_(), b.detach().clone().requires_grad_()
            grads = torch.autograd.grad(F.silu(x) * y, (x, y), dc)
        a.data.copy_(grads[0])
        b.data.copy_(grads[1])
        return a.detach(), b.detach()


def dispatch(op: str, *positional: Any) -> Any:
    assert op == "cross_entropy_loss_and_grad"

    def primitive(
        logits_chunk: Tensor,
        target_chunk: Tensor,
        ce_weight: Tensor | None,
        ignore_index: int,
        lse_square_scale: float,
        label_smoothing: float,
        reduction: str,
        softcap: float | None,
        n_non_ignore: int,
        sum_non_ignore_weight: float,
        weight_sum: float,
        return_z_loss: bool,
        return_token_accuracy: bool,
        return_predicted_tokens: bool,
        has_gradients: bool,
    ) -> tuple[Tensor, None, None, None, Tensor]:
        assert (ce_weight, softcap, weight_sum, lse_square_scale, label_smoothing) == (None, None, 0, 0, 0)
        assert (ignore_index, reduction, sum_non_ignore_weight) == (-100, "mean", n_non_ignore)
        assert (return_z_loss, return_token_accuracy, return_predicted_tokens) == (False, False, False)
        x = logits_chunk.detach().clone().requires_grad_()
        loss = F.cross_entropy(x, target_chunk, reduction="none", ignore_index=ignore_index) / n_non_ignore
        if has_gradients:
            (gradient,) = torch.autograd.grad(loss.sum(), x)
            logits_chunk.copy_(gradient)
        return loss.detach(), None, None, None, logits_chunk

    return primitive(*positional)


def layernorm_fwd(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    eps: float = 1e-6,
    return_rstd: bool = False,
    return_mean: bool = False,
) -> Any:
    assert weight.dtype == torch.float32, "Weight must be float32"
    assert bias is None or bias.dtype == torch.float32, "Bias must be float32"
    mean, rstd = x.float().mean(1), 1 / (x.float().var(1, correction=0) + eps).sqrt()
    y = F.layer_norm(x.float(), weight.shape, weight, bias, eps).to(x.dtype)
    extra = [value for wanted, value in ((return_rstd, rstd), (return_mean, mean)) if wanted]
    return (y, *extra) if extra else y


def layernorm_bwd(
    x: Tensor, weight: Tensor, dout: Tensor, rstd: Tensor, mean: Tensor, has_bias: bool = True
) -> tuple[Tensor, Tensor, Tensor | None]:
    normal = (x - mean[:, None]) * rstd[:, None]
    inner = dout * weight
    dx = rstd[:, None] * (inner - inner.mean(1, True) - normal * (inner * normal).mean(1, True))
    return dx, (dout * normal).sum(0), dout.sum(0) if has_bias else None


def cross_entropy_fwd(
    x: Tensor,
    target: Tensor,
    target_logit: Tensor | None = None,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    return_lse: bool = False,
    return_dx: bool = False,
) -> Any:
    leaf = x.detach().requires_grad_()
    loss = F.cross_entropy(leaf, target, reduction="none", ignore_index=ignore_index)
    return (loss.detach(), *torch.autograd.grad(loss.sum(), leaf)) if return_dx else loss.detach()


MODULES: dict[str, dict[str, Callable[..., Any]]] = {
    "liger_kernel": {},
    "liger_kernel.functional": {
        "softmax": lambda x: torch.softmax(x, -1),
        "layer_norm": lambda x, weight, bias=None, eps=1e-6: F.layer_norm(x, weight.shape, weight, bias, eps),
        "rms_norm": lambda x, weight, eps=1e-6, *, in_place=False: F.rms_norm(x, weight.shape, weight, eps),
        "swiglu": lambda a, b: SwigluInPlace.apply(a, b),  # type: ignore[no-untyped-call]
    },
    "liger_kernel.backends": {"dispatch": dispatch},
    "quack": {},
    "quack.softmax": {"softmax": lambda x: torch.softmax(x, -1)},
    "quack.rmsnorm": {
        "rmsnorm": lambda x, weight=None, eps=1e-6: F.rms_norm(x, weight.shape, weight, eps),
        "layernorm_fwd": layernorm_fwd,
        "layernorm_bwd": layernorm_bwd,
    },
    "quack.cross_entropy": {
        "cross_entropy": lambda x, target, reduction="mean": F.cross_entropy(x, target, reduction=reduction),
        "cross_entropy_fwd": cross_entropy_fwd,
    },
}


@pytest.fixture
def fresh() -> Iterator[None]:
    peer.cache_clear()
    yield
    peer.cache_clear()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    for name, functions in MODULES.items():
        module = ModuleType(name)
        module.__dict__.update(functions)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    found = importlib.import_module

    def import_module(name: str) -> ModuleType:
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return found(name)

    monkeypatch.setattr(importlib, "import_module", import_module)


# ----------------------------------------------------------------------------- what they compute


def call(package: str, op: str, inputs: tuple[Tensor, ...], which: Pass) -> Any:
    found = peer(package, op)
    entrant = Entrant(package, found.function, own=found.own, overwrites=found.overwrites)
    return competitor(entrant, [inputs], which)()[0]()


@pytest.mark.parametrize(("package", "op"), ALL)
def test_forward_is_the_op(installed: None, package: str, op: str) -> None:
    inputs = arguments(op)
    torch.testing.assert_close(call(package, op, inputs, "plain"), REFERENCES[op](*inputs))


@pytest.mark.parametrize(("package", "op"), ALL)
@pytest.mark.parametrize("which", ["plain", "forward", "backward", "forward + backward"])
def test_what_the_others_read_is_left_alone(installed: None, package: str, op: str, which: Pass) -> None:
    inputs = arguments(op)
    before = [value.clone() for value in inputs]
    if (package, op, which) != ("liger", "cross_entropy", "backward"):
        call(package, op, inputs, which)
    for value, was in zip(inputs, before, strict=True):
        assert torch.equal(value, was)


def test_the_overwriting_kernel_does_overwrite(installed: None) -> None:
    """The test above would pass without copies if the module in Liger's place did not."""
    gate, up = (value.requires_grad_() for value in arguments("swiglu"))
    before = gate.detach().clone()
    torch.autograd.grad(peer("liger", "swiglu").function(gate, up).sum(), (gate, up))
    assert not torch.equal(gate, before)


@pytest.mark.parametrize("which", ["backward", "forward + backward"])
@pytest.mark.parametrize(("package", "op"), [pair for pair in ALL if pair[1] != "cross_entropy"])
def test_a_pass_gives_the_gradients_of_the_op(
    installed: None, monkeypatch: pytest.MonkeyPatch, package: str, op: str, which: Pass
) -> None:
    monkeypatch.setattr(torch, "randn_like", lambda y: torch.linspace(-1, 1, y.numel()).reshape(y.shape))
    inputs = arguments(op)
    leaves = [value.clone().requires_grad_() for value in inputs]
    output = REFERENCES[op](*leaves)
    expected = torch.autograd.grad(output, leaves, torch.randn_like(output))
    torch.testing.assert_close(tuple(call(package, op, inputs, which)), expected)


def test_cross_entropy_gives_loss_and_gradient_in_one(installed: None) -> None:
    logits, target = arguments("cross_entropy")
    leaf = logits.clone().requires_grad_()
    expected = F.cross_entropy(leaf, target)
    loss, gradient = call("quack", "cross_entropy", (logits, target), "forward + backward")
    counted = int((target != -100).sum())
    torch.testing.assert_close(loss / counted, expected)
    torch.testing.assert_close(gradient / counted, *torch.autograd.grad(expected, leaf))
    torch.testing.assert_close(call("liger", "cross_entropy", (logits, target), "forward + backward"), expected)


def test_liger_has_no_backward_pass_of_cross_entropy(installed: None) -> None:
    with pytest.raises(PeerAbsent, match="no backward pass"):
        call("liger", "cross_entropy", arguments("cross_entropy"), "backward")


def test_quack_takes_a_weight_in_half_precision_as_float32(installed: None) -> None:
    inputs = tuple(value.bfloat16() for value in arguments("layer_norm"))
    assert call("quack", "layer_norm", inputs, "plain").dtype == torch.bfloat16


def called_once(method: str, competitors: Mapping[str, Competitor], **_: Any) -> dict[str, Result]:
    """In the place of the timer on a GPU: prepares everyone and makes the first call."""

    def result(competitor: Competitor) -> Result:
        try:
            competitor()[0]()
        except Exception as error:
            return Failure.of(error)
        return Timing((2e-6,) * 10)

    return {name: result(competitor) for name, competitor in competitors.items()}


@pytest.mark.parametrize(
    ("op", "options", "outcomes"),
    [
        pytest.param("softmax", {}, {"liger": "measured", "quack": "measured"}, id="forward"),
        pytest.param("layer_norm", {"backward": True}, {"liger": "measured", "quack": "measured"}, id="backward"),
        pytest.param("swiglu", {"training": True}, {"liger": "measured", "quack": "not run"}, id="absent in one"),
        pytest.param(
            "cross_entropy", {"backward": True}, {"liger": "failed", "quack": "measured"}, id="no such pass in one"
        ),
        pytest.param("cross_entropy", {"training": True}, {"liger": "measured", "quack": "measured"}, id="training"),
    ],
)
def test_libraries_compete_in_every_pass(
    installed: None,
    monkeypatch: pytest.MonkeyPatch,
    op: str,
    options: dict[str, Any],
    outcomes: dict[str, str],
) -> None:
    monkeypatch.setattr(run, "_method", lambda name, device: "graph")
    monkeypatch.setattr(run, "measure", called_once)
    stated = Benchmark(
        name="one",
        cases=(Case("4x16", (4, 16)),),
        arguments=lambda device, dtype, case: arguments(op),
        eager=REFERENCES[op],
        bytes=lambda case, dtype: 512,
        peers=op,
        **options,
    )
    task = run.Task(op, stated, stated.cases[0], torch.float32, "graph")
    machine = run.Machine(torch.device("cpu"), against=("eager", "liger", "quack"))
    rows = {row.competitor: row for row in run.run(task, {PORT: Entrant(PORT, REFERENCES[op])}, machine)}
    expected = {ROOFLINE: "measured", EAGER: "measured", PORT: "measured"} | outcomes
    assert {name: row.outcome for name, row in rows.items()} == expected
    assert set(rows[PORT].ratios) == {n for n, one in expected.items() if one == "measured"} - {PORT}
    assert all(row.reason for name, row in rows.items() if row.outcome != "measured")


# ----------------------------------------------------------------------------- where they are not


def benchmark(peers: str | None) -> Benchmark:
    return Benchmark(
        name="forward",
        cases=(Case("4x16", (4, 16)),),
        arguments=lambda device, dtype, case: arguments("softmax"),
        eager=REFERENCES["softmax"],
        bytes=lambda case, dtype: 512,
        peers=peers,
    )


def reasons(peers: str | None, without: str = "") -> dict[str, str]:
    port = {PORT: Entrant(PORT, REFERENCES["softmax"])}
    found = entrants(benchmark(peers), port, ("liger", "quack"), without=without)
    assert [entrant.name for entrant in found] == [LIGER, QUACK, PORT], "nobody is dropped"
    return {entrant.name: entrant.absent for entrant in found}


def test_a_library_that_is_not_installed_is_named_with_the_remedy(missing: None) -> None:
    expected = {
        LIGER: "liger is not installed: pip install liger-kernel==0.8.5",
        QUACK: "quack is not installed: pip install quack-kernels==0.6.5",
    }
    assert reasons("softmax") == expected | {PORT: ""}
    assert absent(("eager", "quack")) == [expected[QUACK]]


def test_a_library_that_cannot_be_imported_is_named_with_the_reason(
    installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "quack")
    monkeypatch.setattr(
        importlib, "import_module", lambda name: (_ for _ in ()).throw(OSError("libcutlass.so: not found"))
    )
    assert absent(("quack",)) == [
        "quack cannot be imported (OSError: libcutlass.so: not found): pip install quack-kernels==0.6.5"
    ]


def test_a_library_without_the_op_is_named(installed: None) -> None:
    assert reasons(None)[LIGER] == "liger does not have this op"
    assert "quack has no swiglu of its own" in reasons("swiglu")[QUACK]
    assert reasons("swiglu")[LIGER] == ""


def test_a_library_is_told_why_it_cannot_run_here(installed: None) -> None:
    assert reasons("softmax", without="it needs a GPU") == {LIGER: "it needs a GPU", QUACK: "it needs a GPU", PORT: ""}


# ----------------------------------------------------------------------------- the libraries themselves


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize(("package", "op"), ALL)
def test_the_library_itself_computes_the_op(fresh: None, package: str, op: str) -> None:
    if absent((package,)):
        pytest.skip(absent((package,))[0])
    inputs = arguments(op, "cuda", rows=64, columns=1024)
    torch.testing.assert_close(
        call(package, op, inputs, "plain").float(), REFERENCES[op](*inputs), atol=1e-3, rtol=1e-3
    )
    if op != "cross_entropy":
        call(package, op, inputs, "backward")
    call(package, op, inputs, "forward + backward")
