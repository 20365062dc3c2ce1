"""Rewrites kernels so that the simulator can run them: waiting becomes ``yield``, arithmetic becomes the GPU's."""

from trifold.simulator.rewriter.link import is_rewritten
from trifold.simulator.rewriter.program import Builder, Captured, Program, Unread, reasons
from trifold.simulator.rewriter.survey import Operation, Survey, Vocabulary
from trifold.simulator.rewriter.transform import Conversions, Runtime

__all__ = [
    "Builder",
    "Captured",
    "Conversions",
    "Operation",
    "Program",
    "Runtime",
    "Survey",
    "Unread",
    "Vocabulary",
    "is_rewritten",
    "reasons",
]
