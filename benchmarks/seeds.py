"""Complete verifications of all ops on the CPU, each with another seed: how often a right op is said to be wrong.

    python benchmarks/seeds.py [--count N] [--first SEED] [--reports FOLDER] --json FILE

FILE has one entry per seed. Its seeds are not run again, and more are added, until it has N entries; if it is of other
sources, it is begun anew. FOLDER has reports of the same sources, from any machine, named after their seeds: 8110.json
or 8110.json.gz is what ``trifold verify --device cpu --seed 8110 --json 8110.json`` wrote. They count as well.

Each seed takes ten to fifteen minutes on two cores. Exits with 1 if a run failed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.records import sources
from trifold.workspace import Workspace

RECORD = "verify/seeds.json"
COUNT = 20
FIRST = 9000
_FACTS = ("device", "torch", "numba", "python", "commit", "dirty", "date")


def entry(seed: int, report: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a report: its verdict, cases, seconds, failed rows, and where it was made."""
    rows = [(op["op"], row) for op in report["ops"] for row in op["rows"]]
    failed = [
        {"op": op, "check": row["check"], "implementation": row["implementation"], "failures": row["failures"]}
        for op, row in rows
        if row["outcome"] == "failed"
    ]
    return {
        "seed": seed,
        "verdict": report["verdict"],
        "cases": sum(row["cases"] for _, row in rows),
        "seconds": report["seconds"],
        "failed": failed,
        **{name: report["environment"].get(name) for name in _FACTS},
    }


def reported(folder: Path, wanted: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The entries of the reports in ``folder``.

    Raises:
        SystemExit: a report is of other sources, or not of all ops.
    """
    ops = set(Workspace.find().ops())
    for path in sorted(folder.glob("*.json*")):
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        report = json.loads(text)
        # Of a toolkit that is installed elsewhere, the tree's own counts among the workspace's files.
        same = wanted.items() <= report["environment"]["sources"].items()
        if not same or {op["op"] for op in report["ops"]} != ops:
            raise SystemExit(f"seeds.py: {path} is of other sources or ops than those of this tree; move it away")
        yield entry(int(path.name.split(".")[0]), report)


def run(seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        command = ["trifold", "verify", "--device", "cpu", "--seed", str(seed), "--json", str(file)]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        if not file.exists():
            raise SystemExit(f"seeds.py: {' '.join(command)} wrote no report")
        return entry(seed, json.loads(file.read_bytes()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--count", type=int, default=COUNT, help=f"entries that the file is to have; default {COUNT}")
    parser.add_argument("--first", type=int, default=FIRST, help=f"the first seed to run; default {FIRST}")
    parser.add_argument("--reports", type=Path, help="a folder of reports that count as well")
    options = parser.parse_args()
    wanted = sources(RECORD)
    known = json.loads(options.json.read_bytes()) if options.json.exists() else {}
    of_seed = {one["seed"]: one for one in known.get("runs", ()) if known["sources"] == wanted}

    def keep(*entries: dict[str, Any]) -> None:
        """Write the file with these added; the commit is that of the last seed, which has the sources of all."""
        of_seed.update({one["seed"]: one for one in entries})
        runs = [of_seed[seed] for seed in sorted(of_seed)]
        facts = {"commit": runs[-1]["commit"], "dirty": any(one["dirty"] for one in runs), "sources": wanted}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**facts, "runs": runs}, indent=1) + "\n", encoding="utf-8")

    if options.reports:
        keep(*reported(options.reports, wanted))
    seed = options.first
    while len(of_seed) < options.count:
        if seed not in of_seed:
            keep(run(seed))
            last = of_seed[seed]
            print(f"{seed}: {last['verdict']}, {last['cases']} cases, {last['seconds']:g} s", flush=True)
        seed += 1
    wrong = [str(one["seed"]) for one in of_seed.values() if one["verdict"] != "verified"]
    cases = sum(one["cases"] for one in of_seed.values())
    print(f"{len(of_seed)} seeds, {cases:,} cases; failed: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
