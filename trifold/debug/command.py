"""``trifold debug``: stop in a kernel of an op on one of the op's samples, in the simulator or in the port."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trifold.completion import op_names
from trifold.simulator.coordinates import Coordinates, parsed
from trifold.workspace import Workspace


def debug(
    op: Annotated[str, typer.Argument(help="An op of the workspace.", show_default=False, autocompletion=op_names)],
    function: Annotated[
        str | None, typer.Option(help="A launch function (OP_backward), kernel or device function.", show_default="OP")
    ] = None,
    sample: Annotated[
        str | None, typer.Option(help="A sample of verify/OP.py: its name or number.", show_default="the first")
    ] = None,
    block: Annotated[str, typer.Option(metavar="X,Y,Z", help="The CUDA block to stop in.")] = "0,0,0",
    thread: Annotated[str, typer.Option(metavar="X,Y,Z", help="The CUDA thread to stop in.")] = "0,0,0",
    line: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="A line of a kernel in prototypes/OP.py; with --port, in cuda_src/OP.cuh.",
            show_default="the kernel's first",
        ),
    ] = None,
    port: Annotated[bool, typer.Option("--port", help="Debug the C++ port, on the CPU, in gdb.")] = False,
    cuda: Annotated[bool, typer.Option("--cuda", help="Debug the C++ port on the GPU, in cuda-gdb.")] = False,
    workspace: Annotated[
        Path | None,
        typer.Option(help="A folder with prototypes/, cuda_src/, ports/ and verify/.", show_default="nearest parent"),
    ] = None,
) -> None:
    """Stop in a CUDA thread of an op's kernel, on one of its samples: in pdb, or with --port in gdb.

    At the prompt: n(ext) and s(tep) stay in the thread, "thread X,Y,Z" goes to another, "info threads" shows all.

    Under an editor's debugger (debugpy) the editor stops there instead.

    With --port, in gdb: "trifold where" shows the thread and where the others of its block wait, "trifold thread X,Y,Z"
    goes to another.
    """
    place = _coordinates("--thread", thread), _coordinates("--block", block)
    found = Workspace.find() if workspace is None else Workspace.at(workspace)
    if cuda:
        from trifold.debug.cuda import CudaSession

        raise typer.Exit(CudaSession.open(found.op(op), function or op, sample, place, line).run())
    if port:
        from trifold.debug.port import PortSession

        raise typer.Exit(PortSession.open(found.op(op), function or op, sample, place, line).run())
    from trifold.debug.session import Session

    session = Session.open(found.op(op), function or op, sample, place, line)
    raise typer.Exit(session.run())


def _coordinates(option: str, text: str) -> Coordinates:
    coordinates = parsed(text)
    if coordinates is None:
        raise typer.BadParameter(f"'{text}' is not X,Y,Z", param_hint=option)
    return coordinates
