"""Tables of tests: no row that fails is left untold, and a table without rows is an error."""

from __future__ import annotations

import inspect
import re

import pytest

from tests.support.tables import every_row


def refused(test, **given) -> str:
    with pytest.raises(AssertionError) as caught:
        test(**given)
    return str(caught.value)


def test_all_rows_that_hold_are_one_test_that_passes():
    seen = []

    @every_row("number", [1, 2, 3])
    def positive(number):
        seen.append(number)
        assert number > 0

    positive()
    assert seen == [1, 2, 3]


def test_every_row_that_fails_is_told_with_its_name_its_values_its_place_and_its_words():
    """Mutants: tables.py that ends with the first row that fails; that tells the last one alone; that forgets the ids."""

    @every_row(
        ("text", "length"),
        [("a", 1), pytest.param("bb", 3, id="two letters"), ("ccc", 3), pytest.param("dddd", "x", id="no number")],
    )
    def long(text, length):
        assert len(text) == int(length)

    said = refused(long)
    assert said.startswith("2 of 4 rows failed:\n")
    first, second = said.split("\n- ")[1:]
    assert first.startswith("row 1 [two letters] text='bb', length=3\n")
    assert re.search(r"test_tables\.py:\d+: assert 2 == 3\n", first)
    assert "where 2 = len('bb')" in first
    assert second.startswith("row 3 [no number] text='dddd', length='x'\n")
    assert "ValueError: invalid literal for int()" in second


def test_the_first_failure_is_shown_whole():
    @every_row("number", [1, 0])
    def divides(number):
        assert 1 / number

    with pytest.raises(AssertionError) as caught:
        divides()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@every_row("leave", [pytest.skip, pytest.xfail, pytest.fail])
def test_a_row_that_leaves_itself_out_has_failed(leave):
    seen = []

    @every_row("number", [1, 2])
    def leaves(number):
        seen.append(number)
        leave("not today")

    assert refused(leaves).count("not today") == 2
    assert seen == [1, 2]


def test_after_a_row_that_took_all_the_time_no_other_is_tried():
    @every_row("number", [1, 2])
    def endless(number):
        pytest.fail("Timeout (>300.0s) from pytest-timeout.")

    assert refused(endless).startswith("1 of 2 rows failed")


def test_an_exception_that_is_expected_and_does_not_come_is_told():
    @every_row("text", ["1", "x"])
    def no_number(text):
        with pytest.raises(ValueError, match="invalid"):
            int(text)

    said = refused(no_number)
    assert said.startswith("1 of 2 rows failed:\n- row 0 text='1'\n")
    assert "DID NOT RAISE" in said


@every_row("number", [1, 2])
def test_other_fixtures_are_passed(number, request, capsys):
    print(number)
    assert capsys.readouterr().out == f"{number}\n"
    assert request.node.name == "test_other_fixtures_are_passed"


class TestOfAClass:
    @every_row("number", [1, 2])
    def test_a_method_has_its_rows_too(self, number, tmp_path):
        assert type(self).__name__ == "TestOfAClass"
        assert list(tmp_path.iterdir()) == []
        (tmp_path / "file").touch()


@every_row("number", [1, 2])
@every_row("letter", "ab")
def test_each_row_has_a_directory_of_its_own(number, letter, tmp_path):
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()


def test_tables_above_each_other_are_all_their_pairs():
    seen = []

    @every_row("number", [1, 2])
    @every_row("letter", "ab", ids=str.upper)
    def pairs(number, letter):
        seen.append((number, letter))
        assert (number, letter) != (2, "b")

    said = refused(pairs)
    assert seen == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    assert "row 1 number=2" in said
    assert "row 1 [B] letter='b'" in said


@pytest.mark.parametrize("letter", ["a", "b"])
@every_row("number", [1, 2])
def test_a_table_stands_below_what_pytest_makes_many_tests_of(number, letter, request):
    assert request.node.name.endswith(f"[{letter}]")


def test_what_is_in_the_table_is_no_fixture():
    @every_row("number, letter", [(1, "a")])
    def both(number, letter, tmp_path, caplog): ...

    assert list(inspect.signature(both).parameters) == ["tmp_path", "caplog"]


@pytest.mark.parametrize(
    ("names", "rows", "more", "why"),
    [
        ("number", [], {}, "has no rows"),
        ("number", iter(()), {}, "has no rows"),
        ("number", [pytest.param(1, marks=pytest.mark.slow)], {}, "has marks"),
        ("number, letter", [(1, "a"), (1,)], {}, "row 1 of number, letter has 1 values for 2 names"),
        ("number", [1, 2], {"ids": ["one"]}, "has 2 rows and 1 ids"),
        ("other", [1, 2], {}, "does not take other"),
    ],
)
def test_a_table_that_cannot_be_meant_is_an_error_at_once(names, rows, more, why):
    """Mutants: tables.py that takes a table without rows; that drops the marks of a row."""

    def test(number, letter=""): ...

    with pytest.raises(ValueError, match=why):
        every_row(names, rows, **more)(test)
