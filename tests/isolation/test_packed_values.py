"""Values in messages: each arrives as it was sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from trifold.isolation.tensors import Packed, Unpacking


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        [1, None, "two"],
        (1.5, float("inf")),
        torch.bfloat16,
        torch.device("cuda", 1),
        [torch.int8, torch.device("cpu")],
        [],
        {"sizes": [[1], [2, 3]]},
    ],
    ids=str,
)
def test_a_value_travels_as_it_is(value: Any) -> None:
    sent = json.loads(json.dumps(Packed().pack(value)))
    made = Unpacking(lambda number: torch.UntypedStorage(0)).value(sent)
    assert type(made) is type(value)
    assert made == value


def test_a_size_travels_as_a_tuple() -> None:
    sent = json.loads(json.dumps(Packed().pack(torch.zeros(2, 3).shape)))
    assert Unpacking(lambda number: torch.UntypedStorage(0)).value(sent) == (2, 3)


def test_tensors_in_lists_share_what_they_share() -> None:
    x = torch.arange(4.0)
    packed = Packed()
    sent = json.loads(json.dumps(packed.pack([x, [x[1:], None], x])))
    assert len(packed.owners) == 1
    first, (view, nothing), again = Unpacking(lambda number: x.clone().untyped_storage()).value(sent)
    assert again is first
    assert nothing is None
    assert view.tolist() == [1, 2, 3]
