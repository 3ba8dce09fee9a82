"""Folded names are fewer letters and the same names."""

from __future__ import annotations

from engine.text.name_ranges import fold
from tests.tables import every_row


@every_row(
    ("names", "folded"),
    [
        ([], ""),
        (["gpu-01"], "gpu-01"),
        (["gpu-01", "gpu-01"], "gpu-01"),
        ([f"gpu-{number:02}" for number in range(1, 39)], "gpu-[01-38]"),
        (["b", "a"], "a,b"),
        (["odd,name", "b", "odd,name"], "odd,name,b"),
        (["gpu-9", "gpu-10"], "gpu-[9-10]"),
        (["r1n1", "r1n2", "r2n1", "r2n2"], "r[1-2]n[1-2]"),
        (["gpu-1", "gpu-3", "gpu-5"], "gpu-[1,3,5]"),
        (["odd,name", "gpu-1", "gpu-2"], "odd,name,gpu-1,gpu-2"),
        (["gpu-[1]", "gpu-2"], "gpu-[1],gpu-2"),
        (["%s-1", "%s-2"], "%s-1,%s-2"),
        (["n٣", "n٤"], "n٣,n٤"),
        (["@all", "@all2"], "@all,@all2"),
    ],
)
def test_names_fold(names, folded):
    assert fold(names) == folded


def test_names_fold_from_anything_that_can_be_walked_once():
    assert fold(f"a{number}" for number in (1, 2)) == "a[1-2]"


def test_a_thousand_addresses_do_not_hold_up_a_report():
    names = [f"10.{number % 3}.{number % 50}.{number}" for number in range(1000)]
    assert fold(names) == ",".join(names)
