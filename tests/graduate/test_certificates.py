"""An op graduates with a valid certificate of its own, and with no other."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from tests.graduate.verified import certify, verified_workspace
from trifold.errors import GraduationError
from trifold.graduate.certificates import require_certificate
from trifold.verification.certificate import Certificate, certificate_path
from trifold.workspace import Workspace


def require(workspace: Workspace, waived: Collection[str] = ("cuda",)) -> Certificate:
    files = workspace.files("add")
    contents = {str(path.relative_to(workspace.root)): path.read_bytes() for path in files}
    return require_certificate(workspace, files, contents, waived)


def edit(workspace: Workspace, change: Callable[[dict[str, Any]], None]) -> None:
    path = certificate_path(workspace, "add")
    certificate = json.loads(path.read_text())
    change(certificate)
    path.write_text(json.dumps(certificate))


def test_a_current_certificate_is_taken_with_what_was_waived(tmp_path: Path) -> None:
    workspace = verified_workspace(tmp_path, "add")
    certificate = require(workspace)
    assert (certificate["verdict"], certificate["devices"], certificate["waived"]) == ("verified", ["cpu"], ["cuda"])


def test_nothing_is_waived_that_was_verified(tmp_path: Path) -> None:
    workspace = verified_workspace(tmp_path, "add")
    certify(workspace, "add", devices=("cpu", "cuda"))
    assert require(workspace)["waived"] == require(workspace, ())["waived"] == []


def test_cuda_must_be_verified_or_waived(tmp_path: Path) -> None:
    workspace = verified_workspace(tmp_path, "add")
    with pytest.raises(GraduationError, match="add is not verified on cuda") as raised:
        require(workspace, ())
    assert "--allow-unverified cuda" in raised.value.remedy


def test_the_cpu_cannot_be_waived_with_cuda(tmp_path: Path) -> None:
    workspace = verified_workspace(tmp_path, "add")
    certify(workspace, "add", devices=("cuda",))
    with pytest.raises(GraduationError, match="add is not verified on cpu"):
        require(workspace)


def test_a_port_that_cannot_run_on_the_cpu_needs_no_verification_there(tmp_path: Path) -> None:
    workspace = verified_workspace(tmp_path, "add")
    certify(workspace, "add", devices=("cuda",))
    row = {"check": "values", "implementation": "port", "device": "cpu", "outcome": "not run", "cases": 0}
    row |= {"dtypes": [], "accepted": []}
    reason = "the port cannot run on the CPU: inline PTX"
    edit(workspace, lambda certificate: certificate["rows"].append({**row, "reason": reason}))
    assert require(workspace, ())["devices"] == ["cuda"]


def test_few_examples_must_be_waived(tmp_path: Path) -> None:
    workspace = verified_workspace(tmp_path, "add")
    certify(workspace, "add", examples=5)
    with pytest.raises(
        GraduationError, match=r"add was verified with 5 of 48 examples \(prototype cpu\), 5 of 80"
    ) as raised:
        require(workspace)
    assert "trifold verify add, or graduate with --allow-unverified examples" in raised.value.remedy
    assert require(workspace, ("cuda", "examples"))["waived"] == ["cuda", "examples"]


def test_as_many_as_by_default_need_no_waiver(tmp_path: Path) -> None:
    workspace = verified_workspace(tmp_path, "add")
    certify(workspace, "add", examples=100)
    assert require(workspace, ("cuda", "examples"))["waived"] == ["cuda"]


def of_another_op(workspace: Workspace) -> None:
    certify(workspace, "mul")
    certificate_path(workspace, "mul").replace(certificate_path(workspace, "add"))


def with_an_edited(kind: str) -> Callable[[Workspace], None]:
    def change(workspace: Workspace) -> None:
        path: Path = getattr(workspace.files("add"), kind)
        path.write_text(path.read_text() + "\n")

    return change


BROKEN: list[tuple[str, Callable[[Workspace], object], str]] = [
    ("missing", lambda workspace: certificate_path(workspace, "add").unlink(), "add has no certificate"),
    ("no JSON", lambda workspace: certificate_path(workspace, "add").write_text("{"), "is no certificate"),
    ("a list", lambda workspace: certificate_path(workspace, "add").write_text("[]"), "is no certificate"),
    ("without sources", lambda workspace: edit(workspace, lambda c: c.pop("sources")), "is no certificate"),
    ("of another op", of_another_op, "is the certificate of mul, not of add"),
    ("failed", lambda workspace: certify(workspace, "add", outcome="failed"), "says 'failed'"),
    ("incomplete", lambda workspace: certify(workspace, "add", outcome="not run"), "says 'incomplete'"),
    (
        "of another trifold",
        lambda workspace: edit(workspace, lambda c: c.update(toolkit="")),
        "trifold itself changed",
    ),
    *(
        (f"edited {kind}", with_an_edited(kind), "stale: .*add.* changed since")
        for kind in ("prototype", "header", "binding", "port", "spec")
    ),
]


@pytest.mark.parametrize(("breaks", "says"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_certificate_that_does_not_hold_is_refused(
    breaks: Callable[[Workspace], object], says: str, tmp_path: Path
) -> None:
    workspace = verified_workspace(tmp_path, "add", "mul")
    breaks(workspace)
    with pytest.raises(GraduationError, match=says) as raised:
        require(workspace)
    assert "trifold verify add" in raised.value.remedy


def test_what_is_shipped_is_what_was_verified(tmp_path: Path) -> None:
    workspace = verified_workspace(tmp_path, "add")
    files = workspace.files("add")
    contents = {str(path.relative_to(workspace.root)): path.read_bytes() for path in files}
    contents["cuda_src/add.cuh"] += b"\n"  # saved between reading and looking
    with pytest.raises(GraduationError, match=r"stale: cuda_src/add\.cuh changed"):
        require_certificate(workspace, files, contents, ("cuda",))
