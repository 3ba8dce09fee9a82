"""Options by the names that other programs give them are answered with what they are called here."""

from __future__ import annotations

from tests.support.program import runbook
from tests.support.tables import every_row


@every_row(
    ("argv", "here"),
    [
        (("run", "toy", "--limit", "gpu-01"), "(here: --hosts PATTERN)"),
        (("run", "toy", "--limit=gpu-01"), "(here: --hosts PATTERN)"),
        (("run", "toy", "--check"), "(here: --dry-run)"),
        (("run", "toy", "--extra-vars", "a=b"), "(here: -e NAME=VALUE, or --inputs FILE)"),
        (("run", "toy", "--become"), "(here: a step that needs root says `become: true`)"),
        (("exec", "all", "--forks", "5", "--", "true"), "(here: --parallel N)"),
    ],
)
def test_an_option_of_another_program_is_answered_with_ours(argv, here):
    said = runbook(*argv)
    assert said.code == 2
    assert here in said.err, said.err


def test_what_a_command_has_not_got_is_not_named():
    said = runbook("exec", "all", "--check", "--", "true")
    assert said.code == 2
    assert "--dry-run" not in said.err
    assert "here:" not in runbook("run", "toy", "--nothing-like-it").err
