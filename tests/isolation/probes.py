"""An ``add`` whose public function has one argument more, which says what to do instead of adding."""

from __future__ import annotations

from trifold.cells import CellName
from trifold.workspace import Workspace

ADD = CellName("add", "prototype", "cpu")
# What the judge consists of: an op that has it could change it, or ask it.
FOREIGN = """
def foreign():
    import sys
    of_trifold = ("trifold.verification", "trifold.spec", "trifold_reference_", "trifold_spec_", "trifold_verify_")
    names = (*of_trifold, "hypothesis")
    found = sorted(name for name in sys.modules if name.startswith(names))
    assert "trifold.isolation.server" in sys.modules or sys.argv[0].endswith("server.py")
    raise RuntimeError(f"foreign modules: {found}")
"""
# The public function of ``add`` with one argument more: what to do instead.
PROBES = (
    FOREIGN
    + """
import os
import sys
import time

import torch

kept = torch.zeros(4)
stolen = []


class Odd(ValueError):
    pass


def call_reference(x, y):
    for module in list(sys.modules.values()):
        if (getattr(module, "__file__", None) or "").endswith("prototypes/add.py"):
            return module.reference(x, y)
    raise KeyError("no prototype")


def raise_odd(x, y):
    raise Odd("odd words")


def change(x, y):
    x.mul_(2)
    return x + y


def keep(x, y):
    kept.copy_(x)
    return kept


def overwrite(x, y):
    kept.add_(1)
    return x + y


def steal(x, y):
    made = x + y
    stolen.append(made)
    return made


def steal_argument(x, y):
    stolen.append(x)
    return x + y


def exit_with_system_exit(x, y):
    raise SystemExit(3)


def write_to_sockets(x, y):
    import stat

    for number in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                os.write(number, b"\\x02\\0\\0\\0\\0\\0\\0\\0{}")
        except OSError:
            pass
    return x + y


DOES = {
    "": lambda x, y: op.add(x, y),
    "foreign": lambda x, y: foreign(),
    "reference": call_reference,
    "odd": raise_odd,
    "argument": lambda x, y: x,
    "view": lambda x, y: (x[1:], x + y, 7, "seven"),
    "two views": lambda x, y: (lambda made: (made[:2], made[2:]))(x + y),
    "keep": keep,
    "overwrite": overwrite,
    "change": change,
    "steal": steal,
    "steal argument": steal_argument,
    "stolen": lambda x, y: stolen.pop(),
    "cube": lambda x, y: x**3 * y,
    "draw": lambda x, y: torch.rand(4),
    "draw with": lambda x, generator: torch.rand(4, generator=generator),
    "mode": lambda x, y: (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
    "integers": lambda x, y: (x > 0, x),
    "subclass": lambda x, y: torch.nn.Parameter(x),
    "sleep": lambda x, y: time.sleep(60),
    "exit": lambda x, y: os._exit(0),
    "system exit": exit_with_system_exit,
    "write": write_to_sockets,
}


def add(x, y, do=""):
    return DOES[do](x, y)


"""
)


def replace_function(workspace: Workspace, text: str) -> None:
    """Put ``text`` in place of the public function of ``add``."""
    port = workspace.files("add").port
    before, _, after = port.read_text(encoding="utf-8").partition("def add(")
    port.write_text(before + text + after[after.index("op = wire(") :], encoding="utf-8")
