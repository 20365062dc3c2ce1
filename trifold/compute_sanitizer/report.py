"""Parses the output of compute-sanitizer's tools into findings.

The text is parsed, not the XML: the manual shows the text of each tool, and no version documents the XML. A report
begins with a line after ``=========`` and one space; its other lines are indented further.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from trifold.findings import Access, Finding, FindingKind, Severity

_LINE = re.compile(r"=========(?: (?P<indent> *)(?P<text>.*))?$")
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK|LEAK) SUMMARY: ")
_HAZARDS = re.compile(r"RACECHECK SUMMARY: (\d+) hazards? displayed \((\d+) errors?, (\d+) warnings?\)")
_COORDINATES = r"\((\d+),\s*(\d+),\s*(\d+)\)"
_BY = re.compile(rf"by thread {_COORDINATES} in block {_COORDINATES}")
# "f(int *)+0x70 in a.cu:25", "f(int *):0x70 in a.cu:25", and before CUDA 12 "0x70 in a.cu:25:f(int *)"
_PLACE = re.compile(r"(?P<function>.+?)[+:]0x[0-9a-f]+(?: in (?P<file>.+):(?P<line>\d+))?$")
_OLD_PLACE = re.compile(r"0x[0-9a-f]+ in (?:(?P<file>[^:]+):(?P<line>\d+):)?(?P<function>.+)$")

_INVALID = re.compile(r"Invalid (?:__(?:remote_)?(?P<memory>\w+?)__ )?(?P<operation>read|write|\S*\s?atomic)\b")
_UNWRITTEN = re.compile(r"Uninitialized (?:__(?P<memory>\w+?)__ )?memory (?P<operation>read|write|atomic)")
_HAZARD = re.compile(
    r"(?:(?P<level>\w+): )?(?:\((?P<remark>[^)]+)\) )?Potential (?P<hazard>RAW|WAR|WAW) hazard detected"
    rf".* at __shared__ 0x(?P<address>[0-9a-f]+) in block {_COORDINATES}"
)
_ANALYSIS = re.compile(r"(?:(?P<level>\w+): )?Race reported between (?P<operation>\w+) access at (?P<place>.+)")
_ANALYSIS_SIDE = re.compile(r"and (?P<operation>\w+) access at (?P<place>.+?)(?: \[(?P<hazards>[\d,]+) hazards?\])?$")
# Shared memory of another block of the cluster, which need not have begun, or may have ended.
_CLUSTER = re.compile(r"Potential invalid __(?P<memory>\w+?)__ (?P<operation>read|write|\S*\s?atomic)\b")
_HAZARD_SIDE = re.compile(rf"(?P<operation>\w+) Thread {_COORDINATES}(?: \(.*?\))? at (?P<place>.+)")
_BARRIER = re.compile(r"[\w ]+ error detected\. (?P<what>.+?)\.?$")
_API = re.compile(r"Program hit (\S+) .*on CUDA API call to (\S+?)\.?$")
# Calls of CUDA that fail because of an earlier error, and then the program itself.
_CONSEQUENCE = re.compile(
    _API.pattern + r"|Error: process didn't terminate successfully|Target application returned an error"
)
# A kernel that the hardware stopped: the error is known, the thread may not be.
_HARDWARE: tuple[tuple[re.Pattern[str], FindingKind], ...] = (
    (re.compile("misaligned", re.IGNORECASE), "misaligned"),
    (re.compile(r"illegal address|invalid address|out-of-range|out of bounds", re.IGNORECASE), "out-of-bounds"),
)
_LEVELS: dict[str, Severity] = {"Warning": "warning", "Info": "lint"}


@dataclass(frozen=True)
class ToolReport:
    """The result of one run of a tool.

    Attributes:
        findings: errors of kernels, each place once.
        problems: other errors: calls of CUDA that failed, limits of the tool.
        complete: whether the tool finished, with a summary.
    """

    findings: tuple[Finding, ...]
    problems: tuple[str, ...]
    complete: bool


@dataclass(frozen=True)
class _Place:
    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return _where(self.function, self.file, self.line)


# racecheck names the same few places in up to 100,000 reports.
_of_few_places = functools.lru_cache(maxsize=4096)


@_of_few_places
def _where(function: str, file: str, line: int) -> str:
    where = f" at {Path(file).name}:{line}" if file else ""
    return f"{where} in {function}"


def parse(text: str, tool: str) -> ToolReport:
    """Parse the content of ``--log-file``.

    Args:
        text: the content; a program's output between the reports is skipped.
        tool: memcheck, racecheck, initcheck or synccheck; it is named in the messages.
    """
    findings: list[Finding] = []
    analyses: list[tuple[re.Match[str], list[str]]] = []
    problems: list[str] = []
    complete = False
    for title, details in _reports(text):
        finding = _finding(title, details, tool)
        if _SUMMARY.match(title):
            complete = True
            problems += _not_shown(title)
        elif analysis := _ANALYSIS.match(title):
            analyses.append((analysis, details))
        elif finding is not None:
            findings.append(finding)
        elif not title.startswith("COMPUTE-SANITIZER"):
            problems.append(_problem(title, details))
    findings += _not_among(findings, analyses)
    if findings:
        problems = [problem for problem in problems if not _CONSEQUENCE.match(problem)]
    return ToolReport(tuple(_each_place_once(findings)), tuple(dict.fromkeys(problems)), complete)


def _not_shown(summary: str) -> list[str]:
    """A remark if the tool printed only some of its findings."""
    match = _HAZARDS.match(summary)
    if match is None or int(match[1]) >= int(match[2]) + int(match[3]):
        return []
    return [f"racecheck printed only {match[1]} of {int(match[2]) + int(match[3])} hazards"]


def _problem(title: str, details: list[str]) -> str:
    """With the place, if it has one, and without the thread, so that equal problems have equal texts."""
    place, _ = _places(details)
    return f"{title}{place}" if place.function else title


def _reports(text: str) -> Iterator[tuple[str, list[str]]]:
    """The first line of each report, and the others."""
    title, details = "", list[str]()
    for line in text.splitlines():
        match = _LINE.match(line.rstrip())
        if match is None:
            continue
        if match["text"] and match["indent"]:
            details.append(match["text"])
            continue
        if title:
            yield title, details
        title, details = match["text"] or "", []
    if title:
        yield title, details


def _finding(title: str, details: list[str], tool: str) -> Finding | None:
    if hazard := _HAZARD.match(title):
        return _race(hazard, details)
    if cluster := _CLUSTER.match(title):
        return _single("race", title, details, tool, cluster["operation"], cluster["memory"])
    if invalid := _INVALID.match(title):
        wrong = next((line for line in details if line.startswith(("Address", "Access"))), "")
        kind: FindingKind = "misaligned" if "misaligned" in wrong else "out-of-bounds"
        return _single(kind, title, details, tool, invalid["operation"], invalid["memory"])
    if unwritten := _UNWRITTEN.match(title):
        return _single("uninitialised read", title, details, tool, unwritten["operation"], unwritten["memory"])
    if barrier := _BARRIER.match(title):
        # an invalid argument is a mask of a warp operation that its own lane is not in
        of_whom: FindingKind = "warp divergence" if barrier["what"] == "Invalid arguments" else "barrier divergence"
        return _single(of_whom, title, details, tool, "barrier")
    if title.startswith("Deadlock detected"):
        return _single("deadlock", title, details, tool, "barrier")
    for sign, stopped in _HARDWARE:
        if sign.search(title) and not _API.match(title):
            return _single(stopped, title, details, tool, "access")
    return None


def _single(
    kind: FindingKind, title: str, details: list[str], tool: str, operation: str, memory: str | None = None
) -> Finding:
    """A finding of one access."""
    place, kernel = _places(details)
    message = f"{kind} in kernel {kernel}: {title.rstrip('.')}"
    accesses: tuple[Access, ...] = ()
    by = next((found for found in map(_BY.match, details) if found), None)
    if by is not None:
        thread, block = _three(by.groups()[:3]), _three(by.groups()[3:])
        message += f", by thread {thread} of block {block}"
        what = operation.rpartition(" ")[2]  # "system-scoped atomic"
        accesses = (Access(thread, block, None, what, place.file, place.line, place.function),)
    near = next((line.removeprefix("and ") for line in details if line.startswith("and is ")), "")
    near = near or next((line for line in details if line.startswith("Address 0x")), "").removeprefix("Address ")
    near = f"; the address {near}" if near else ""
    return Finding(kind, "error", kernel, memory or "", "", (), f"{message}{place}{near} ({tool})", accesses, None)


def _race(hazard: re.Match[str], details: list[str]) -> Finding | None:
    """A race of two threads; the later access is named first, as in the engine's findings."""
    block = _three(hazard.groups()[-3:])
    sides = [found for found in map(_HAZARD_SIDE.match, details) if found]
    if len(sides) != 2:
        return None
    accesses = []
    for side in reversed(sides):
        place = _place(side["place"])
        thread = _three(side.groups()[1:4])
        accesses.append(Access(thread, block, None, side["operation"].lower(), place.file, place.line, place.function))
    later, earlier = accesses
    remark = f"; {hazard['remark'].lower()}" if hazard["remark"] else ""
    message = (
        f"race on shared memory at {int(hazard['address'], 16):#x} in kernel {later.function}: thread {later.thread} "
        f"of block {block} {_does(later)}, what thread {earlier.thread} {_does(earlier)}, and nothing orders the two"
        f"{remark} (racecheck)"
    )
    severity = _level(hazard["level"])
    return Finding("race", severity, later.function, "shared", "", (), message, tuple(accesses), None)


def _not_among(hazards: list[Finding], analyses: list[tuple[re.Match[str], list[str]]]) -> Iterator[Finding]:
    """racecheck's races between two lines without a hazard, which would name the threads, among the findings."""
    known = {frozenset(_Place(at.function, at.file, at.line) for at in hazard.accesses) for hazard in hazards}
    for analysis, details in analyses:
        place = _place(analysis["place"])
        sides = [(found["operation"], _place(found["place"])) for found in map(_ANALYSIS_SIDE.match, details) if found]
        for operation, other in sides:
            if frozenset((place, other)) not in known:
                yield _analysed_race(_level(analysis["level"]), analysis["operation"], place, operation, other)


def _analysed_race(level: Severity, operation: str, place: _Place, other_operation: str, other: _Place) -> Finding:
    message = (
        f"race on shared memory in kernel {place.function}: a thread {operation.lower()}s{place}, what another one "
        f"{other_operation.lower()}s{other}, and nothing orders the two (racecheck)"
    )
    return Finding("race", level, place.function, "shared", "", (), message, (), None)


def _level(word: str | None) -> Severity:
    return _LEVELS.get((word or "").capitalize(), "error")


def _does(access: Access) -> str:
    return f"{access.operation}s{_Place(access.function, access.file, access.line)}"


def _places(details: list[str]) -> tuple[_Place, str]:
    """The location, and the kernel: the outermost function of the thread."""
    at = [_place(line.removeprefix("at ")) for line in details if line.startswith("at ")]
    frames = [
        _place(line.partition("Device Frame:")[2].strip()) for line in details if line.startswith("Device Frame:")
    ]
    stack = [*at, *frames] or [_Place("", "", 0)]
    # CUDA's own functions, such as __syncwarp, have lines too.
    mine = [place for place in stack if place.file and not place.function.startswith("__")]
    return next(iter(mine), stack[0]), stack[-1].function


@_of_few_places
def _place(text: str) -> _Place:
    match = _OLD_PLACE.match(text) or _PLACE.match(text)
    if match is None:
        return _Place(_bare(text), "", 0)
    return _Place(_bare(match["function"]), match["file"] or "", int(match["line"] or 0))


def _bare(function: str) -> str:
    """``ns::f<float>`` of ``void ns::f<float>(const float *, int)``."""
    name = function.removeprefix("void ").strip()
    if name.endswith(")"):
        depth = 0
        for position in range(len(name) - 1, -1, -1):
            depth += {")": 1, "(": -1}.get(name[position], 0)
            if depth == 0:
                return name[:position]
    return name


def _three(numbers: tuple[str | None, ...]) -> tuple[int, int, int]:
    x, y, z = (int(number or 0) for number in numbers)
    return x, y, z


def _each_place_once(findings: list[Finding]) -> Iterator[Finding]:
    """The first finding of each kind at each line, with the number of further threads."""
    counted: dict[tuple[object, ...], tuple[Finding, int]] = {}
    for finding in findings:
        at: tuple[object, ...] = tuple((at.operation, at.file, at.line, at.function) for at in finding.accesses)
        at = at or (finding.message,)
        key = (finding.kind, finding.severity, finding.kernel, finding.memory, at)
        first, count = counted.get(key, (finding, -1))
        counted[key] = first, count + 1
    for first, more in counted.values():
        yield replace(first, message=f"{first.message}; {more} more like it") if more else first
