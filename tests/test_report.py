"""Verdicts, the report's JSON, certificates, and what `trifold list` makes of them."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.wrong.entry import copy_of_gallery
from trifold.cells import CellName
from trifold.source_hashes import source_hashes
from trifold.verification.certificate import certificate_path, certified_rows, read_certificate, write_certificate
from trifold.verification.matrix import failures
from trifold.verification.report import (
    ALL_CHECKS,
    INTERRUPTED,
    OTHER_CHECKS,
    Failure,
    OpReport,
    OutcomeName,
    Report,
    Row,
)
from trifold.verification.stages import stages
from trifold.workspace import Workspace


def row(implementation: str, device: str = "cpu", outcome: OutcomeName = "passed", check: str = "values") -> Row:
    return Row(check, implementation, device, outcome, cases=3)


@pytest.mark.parametrize(
    ("rows", "verdict", "devices"),
    [
        ([row("prototype"), row("port")], "verified", ("cpu",)),
        ([row("prototype"), row("port"), row("prototype", "cuda"), row("port", "cuda")], "verified", ("cpu", "cuda")),
        ([row("prototype"), row("port"), row("port", "cuda", "not run")], "verified", ("cpu",)),
        ([row("prototype"), row("port"), row("port", "cuda")], "verified", ("cpu",)),
        ([row("prototype"), row("port", outcome="failed")], "failed", ()),
        ([row("prototype"), row("port"), row("port", check="errors", outcome="failed")], "failed", ("cpu",)),
        ([row("prototype")], "incomplete", ()),
        ([row("prototype"), row("port", outcome="not run")], "incomplete", ()),
        ([row("prototype", check="errors"), row("port", check="errors")], "incomplete", ()),
        ([row("prototype", "cpu"), row("port", "cuda")], "incomplete", ()),
        ([], "incomplete", ()),
    ],
)
def test_a_verdict_needs_both_implementations_on_one_device(
    rows: list[Row], verdict: str, devices: tuple[str, ...]
) -> None:
    report = OpReport("add", tuple(rows))
    assert report.verdict == verdict
    assert report.devices == devices


def test_some_checks_alone_verify_nothing() -> None:
    assert OpReport("add", (row("prototype"), row("port")), partial=True).verdict == "incomplete"
    assert OpReport("add", (row("prototype", outcome="failed"),), partial=True).verdict == "failed"


def test_what_ended_early_is_not_verified() -> None:
    passed = (row("prototype"), row("port"))
    for check in ("gradients", ALL_CHECKS, OTHER_CHECKS):
        ended = replace(row("port", outcome="not run", check=check), reason=INTERRUPTED)
        assert OpReport("add", (*passed, ended)).verdict == "incomplete"


def test_a_report_is_as_good_as_its_worst_op() -> None:
    good = OpReport("add", (row("prototype"), row("port")))
    bad = OpReport("mul", (row("prototype"), row("port", outcome="failed")))
    open_ended = OpReport("sigmoid", (row("prototype"),))
    assert Report("0", "2", "cpu", (good,)).verdict == "verified"
    assert Report("0", "2", "cpu", (good, open_ended)).verdict == "incomplete"
    assert Report("0", "2", "cpu", (good, open_ended, bad)).verdict == "failed"
    assert not Report("0", "2", "cpu", ())


CPU, BOTH, BOTH_KINDS = ["cpu"], ["cpu", "cuda"], ["prototype", "port"]
NO_GPU = [row(kind, "cuda", "not run", "all checks") for kind in ("prototype", "port")]


@pytest.mark.parametrize(
    ("why", "rows", "asked", "passed"),
    [
        ("all of one implementation", [row("prototype")], (["prototype"], BOTH, []), True),
        ("one check", [row("prototype"), row("port")], (BOTH_KINDS, BOTH, ["values"]), True),
        ("one check, no GPU", [row("prototype"), row("port"), *NO_GPU], (BOTH_KINDS, BOTH, ["values"]), True),
        ("a check that is not for this device", [], (BOTH_KINDS, CPU, ["stream"]), False),
        ("a check that needs a GPU", NO_GPU, (BOTH_KINDS, BOTH, ["stream"]), False),
        ("the port cannot be built", [row("prototype"), row("port", outcome="not run")], (["port"], CPU, []), False),
        ("no GPU", [row("port"), NO_GPU[1]], (["port"], ["cuda"], ["values"]), False),
        ("compiled, not run", [row("port", "cuda", check="build"), NO_GPU[1]], (["port"], ["cuda"], []), False),
        ("one of two checks", [row("port"), row("port", "cpu", "not run", "rounding")],
         (["port"], CPU, ["values", "rounding"]), False),
        ("a property of one implementation", [row("port", check="property: ties")],
         (BOTH_KINDS, CPU, ["property: ties"]), True),
        ("a failure", [row("port"), row("port", outcome="failed", check="errors")], (["port"], CPU, []), False),
    ],
)  # fmt: skip
def test_what_was_asked_has_passed(
    why: str, rows: list[Row], asked: tuple[list[str], list[str], list[str]], passed: bool
) -> None:
    assert Report("0", "2", "cpu", (OpReport("add", tuple(rows), partial=True),)).passed(*asked) == passed, why


def test_a_property_of_another_op_is_not_missed() -> None:
    of_one = OpReport("add", (row("prototype", check="property: ties"), row("port", check="property: ties")))
    both = Report("0", "2", "cpu", (of_one, OpReport("mul", ())))
    assert both.passed(checks=["property: ties"])


def failed(check: str, message: str, kind: str = "port") -> Row:
    return Row(check, kind, "cpu", "failed", failures=(Failure(message, f"call of {check}", f"add({check})"),))


def test_one_cause_is_shown_once_with_the_rows_that_it_fails() -> None:
    rows = (
        failed("values", "no kernel named add_kernel"),
        failed("gradients", "the result is 2"),
        failed("findings", "no kernel named add_kernel"),
        failed("values", "no kernel named add_kernel", "prototype"),
        failed("fake", "SIGSEGV during fake"),
        failed("compile", "SIGSEGV during compile"),
    )
    assert [(cause.implementation, cause.checks) for cause in OpReport("add", rows).causes] == [
        ("port", ("values", "findings")),
        ("port", ("gradients",)),
        ("prototype", ("values",)),
        ("port", ("fake", "compile")),
    ]
    console = Console(width=200, file=StringIO())
    with console.capture() as capture:
        console.print(*failures(Report("0", "2", "cpu", (OpReport("add", rows),))))
    shown = "\n".join(line.rstrip() for line in capture.get().splitlines())
    assert "✗ add port·cpu values, findings\n  no kernel named add_kernel\n  case: call of values\n" in shown
    assert shown.count("no kernel named add_kernel") == 2
    assert "✗ add port·cpu fake, compile\n  SIGSEGV\n" in shown


def test_a_report_is_plain_json() -> None:
    report = Report("0.1", "2.13", "cpu", (OpReport("add", (row("prototype"), row("port"))),), 1.25)
    data = json.loads(json.dumps(report.to_json()))
    assert (data["trifold"], data["torch"], data["device"], data["verdict"]) == ("0.1", "2.13", "cpu", "verified")
    assert data["ops"][0]["rows"][0].keys() >= {
        *("check", "implementation", "device", "outcome", "cases", "reason", "failures"),
    }


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A copy of the gallery for all examples of a property."""
    return copy_of_gallery("add", tmp_path_factory.mktemp("kept"))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return copy_of_gallery("add", tmp_path)


def certify(workspace: Workspace, *rows: Row) -> None:
    result = OpReport("add", rows)
    report = Report("0.1", "2.13", "cpu", (result,))
    sources = source_hashes(workspace, workspace.op("add"))
    write_certificate(workspace, result, report, sources=sources, seed=None)


def test_list_says_what_is_missing_and_what_is_verified(workspace: Workspace) -> None:
    (workspace.root / "ports" / "draft.py").write_text("")
    (before, draft) = stages(workspace)
    assert (before.op, before.files, before.verified) == ("add", "complete", "no")
    assert draft.files == "no prototypes/draft.py, cuda_src/draft.cuh, cuda_src/draft.cu, verify/draft.py"
    certify(workspace, row("prototype"), row("port"))
    after = stages(workspace)[0]
    assert (after.verified, after.certificate) == ("verified on cpu", "current")


def test_a_certificate_is_stale_once_a_source_changes(workspace: Workspace) -> None:
    certify(workspace, row("prototype"), row("port"))
    header = workspace.op("add").header
    header.write_text(header.read_text() + "// changed\n")
    assert stages(workspace)[0].certificate == "stale: cuda_src/add.cuh changed since"


def test_a_failed_verification_replaces_the_certificate(workspace: Workspace) -> None:
    certify(workspace, row("prototype"), row("port"))
    certify(workspace, row("prototype"), row("port", outcome="failed"))
    assert (stages(workspace)[0].verified, stages(workspace)[0].certificate) == ("failed", "no proof: it says 'failed'")
    assert len(list(certificate_path(workspace, "add").parent.iterdir())) == 1


_JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
# All that a certificate has, and as much of it wrong as may be.
_NEARLY = st.fixed_dictionaries(
    {
        "op": st.just("add") | _JSON,
        "verdict": st.just("verified") | _JSON,
        "devices": st.just(["cpu"]) | st.lists(_JSON, max_size=2),
        "sources": st.just({}) | _JSON,
        "examples": st.just({}) | _JSON,
        "rows": st.just([]) | _JSON,
    }
)


@example(
    content=json.dumps(
        {"op": "add", "verdict": "x", "devices": [1], "sources": {}, "examples": {}, "rows": []}
    ).encode()
)
@given(content=(_JSON | _NEARLY).map(lambda value: json.dumps(value).encode()) | st.binary(max_size=8))
@settings(max_examples=200, deadline=None)
def test_whatever_stands_in_a_certificates_place_is_answered_in_words(kept: Workspace, content: bytes) -> None:
    path = certificate_path(kept, "add")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    assert stages(kept)[0].certificate.startswith((f"unreadable: {path}", "stale: "))
    assert certified_rows(kept, CellName("add", "port", "cpu"), "cpu", examples=None, seed=None) == []


@pytest.mark.parametrize(("field", "wrong"), [("examples", {"port cpu": "80"}), ("examples", None)])
def test_a_certificate_has_whole_numbers_of_examples(workspace: Workspace, field: str, wrong: object) -> None:
    certify(workspace, row("prototype"), row("port"))
    path = certificate_path(workspace, "add")
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: wrong}))
    with pytest.raises(ValueError, match=r"is no certificate: .*examples"):
        read_certificate(workspace, "add")


@pytest.mark.parametrize("broken", [{"check": "values"}, None, []])
def test_a_certificate_has_whole_rows(workspace: Workspace, broken: object) -> None:
    certify(workspace, row("prototype"), row("port"))
    path = certificate_path(workspace, "add")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rows": [broken]}))
    with pytest.raises(ValueError, match="is no certificate: a row has not check, "):
        read_certificate(workspace, "add")
