"""What no script for a host may do, whichever action sends it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.tables import every_row

ENGINE = Path(__file__).parents[2] / "engine" / "runbook"
ROOMS = ("diagnosis", "executor", "library", "onhost", "sessions", "shell", "text", "transports")
FILES = sorted(it for room in ROOMS for ending in ("*.py", "*.sh") for it in (ENGINE / room).rglob(ending))
HEREDOC = re.compile(r"^(?!\s*#).*<<-?\s*(\\?[A-Z_]+|'[A-Z_]+'|\"[A-Z_]+\")\s*(\||\)|;|$)", re.MULTILINE)


@every_row("path", FILES, ids=lambda it: str(it.relative_to(ENGINE)))
def test_no_script_has_text_of_its_own_to_read_that_a_shell_would_put_into_a_file(path: Path):
    """bash before 5.1 and busybox make a file in /tmp of a here document: a trace, and of a probe."""
    assert not HEREDOC.search(path.read_text()), path


def test_a_here_document_would_be_seen():
    for line in ("done <<END", "cat <<'EOF'", "cat <<-EOF | sh", 'sh <<"X"'):
        assert HEREDOC.search(f"x\n{line}\ntext"), line
    assert not HEREDOC.search("bit = 1 << at\nlow << 12 | high << 32")
