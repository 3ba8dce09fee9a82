"""Folded names are fewer letters and the same names."""

from __future__ import annotations

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

from runbook.text.name_ranges import expanded, expanded_list, fold
from tests.support.tables import every_row


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


@every_row("text", ["a", "a[1-3]", "a[01-12]b", "r[1-2]-g[08-11]", "a[0-9/3,20]", "a[007]", "[1-3]", "a[099-101]"])
def test_a_range_stands_for_what_clustershell_says(text):
    assert sorted(expanded(text)) == sorted(NodeSet(text, resolver=RESOLVER_NOGROUP))


def test_ranges_keep_the_order_in_which_they_are_written():
    assert expanded("a[3,1-2]") == ["a3", "a1", "a2"]
    assert expanded("r[1-2]g[1-2]") == ["r1g1", "r1g2", "r2g1", "r2g2"]


def test_more_names_than_may_be_are_refused_before_they_are_made():
    with pytest.raises(ValueError, match="more than 100000 names"):
        expanded("a[1-999999999][1-999999999]")


def test_a_list_of_slurm_may_change_the_width_within_a_range():
    assert expanded_list("g[098-1000],x")[::300] == ["g098", "g398", "g698", "g998"]
    with pytest.raises(ValueError, match="different numbers of digits"):
        expanded("g[098-1000]")
