"""trifold's processes run in a folder that has a folder ``trifold`` itself, such as a clone of its repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from trifold import own_process

# Prints the folder of its own package; and of a module of the current folder, which it may import later.
MODULE = """
import pathlib, sys
sys.path.append({trifold!r})
from trifold import own_process
own_process.import_from_here()
import helper
print(pathlib.Path(__file__).parents[1], helper.PLACE, *sys.argv[1:], sep="\\n")
"""


def test_the_current_folder_has_what_ops_import_but_not_the_program(tmp_path: Path) -> None:
    import trifold

    installed, clone = tmp_path / "installed", tmp_path / "clone"
    for place in (installed, clone):
        (place / "package").mkdir(parents=True)
        (place / "package" / "module.py").write_text(MODULE.format(trifold=str(Path(trifold.__file__).parents[1])))
        (place / "helper.py").write_text(f"PLACE = {str(place)!r}\n")
    command = own_process.command("package.module", "--option", "a b")
    environment = os.environ | {"PYTHONPATH": str(installed)}
    printed = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == [str(installed), str(clone), "--option", "a b"]


def test_sources_alone_say_how_they_are_built(tmp_path: Path) -> None:
    import trifold

    (tmp_path / "trifold").mkdir()
    for name in ("__init__.py", "errors.py"):
        (tmp_path / "trifold" / name).symlink_to(Path(trifold.__file__).with_name(name))
    # Without the finder of an editable install, which knows where the compiled parts are.
    program = "import sys; sys.meta_path = sys.meta_path[-3:]; from trifold import _simulator"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: trifold was imported from {tmp_path}/trifold, which has its sources without the compiled parts; "
        f"build them with pip install -e {tmp_path}, or start Python in another folder"
    )
