"""What this machine can run, and the exact command for what it lacks.

    diagnosis = examine()        plain data
    render(diagnosis)            for a rich console

Nothing is imported into this process that could break or slow what comes after: torch, Numba and CUDA are asked in
processes of their own, side by side.
"""

from trifold.doctor.diagnosis import Cell, Diagnosis, Part
from trifold.doctor.examine import examine
from trifold.doctor.render import render

__all__ = ["Cell", "Diagnosis", "Part", "examine", "render"]
