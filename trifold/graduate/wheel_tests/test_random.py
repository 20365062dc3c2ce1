"""Ops that draw random numbers; a package without such an op does not have this file."""

from __future__ import annotations

import unittest

import torch

from trifold.graduate.wheel_tests import calls, package


class RandomNumbers(unittest.TestCase):
    def test_they_repeat_by_seed(self) -> None:
        recorded = calls.read()
        for op, device in package.cells():
            if not recorded[op]["random"]:
                continue
            with self.subTest(op, device=device):
                call = recorded[op]["small"][-1]
                other = {**call, "seed": call["seed"] + 1}
                first, again, third = (
                    calls.invoke(package.function(op), each, device)[0] for each in (call, call, other)
                )
                self.assertTrue(torch.equal(first, again))
                self.assertFalse(torch.equal(first, third))
