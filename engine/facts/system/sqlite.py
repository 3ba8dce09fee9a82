"""How many rows a table of an SQLite database has, read without leaving a trace."""

from __future__ import annotations

from urllib.parse import quote

from engine.errors import ProbeError
from engine.shell import SAFE
from engine.values.command import Command, Completed, read_script


def ask_rows(database: str, table: str, interval: float) -> Command:
    """One script that counts the rows of *table*, twice with *interval* between the counts."""
    name = table.replace('"', '""')
    return read_script(
        _IS_THERE + SAFE + _ASK, database, f'"{name}"', f"{interval:g}" if interval else "", quote(database)
    )


_IS_THERE = """
LC_ALL=C; export LC_ALL
command -v sqlite3 >/dev/null || { echo 'problem no sqlite3'; exit 0; }
"""

_ASK = r"""
db=$1 table=$2 interval=$3 address=$4
case $db in '~/'*) db=$HOME/${db#??} address=$HOME/${address#??} ;; esac
if [ ! -e "$db" ]; then
    words=$(ls -d -- "$db" 2>&1)
    case $words in *'No such file'*) echo 'problem no database' ;; *) printf 'problem %s\n' "${words##*: }" ;; esac
    exit 0
fi
[ -f "$db" ] || { echo 'problem no file'; exit 0; }
[ -r "$db" ] || { echo 'problem Permission denied'; exit 0; }
# The views of a database are programs to sqlite3, and it makes, locks and believes files beside it (-wal, -shm).
if ! safe_resolve "$db" last || ! safe_directory "$db" || ! safe_step "${real%/*}/" || [ "$shared" = yes ]; then
    printf '%s\n' "${why:-everybody can put files beside $db}${owner:+: give the step \`become: $owner\`}" >&2
    exit 3
fi
count() {
    how='mode=ro'
    # A database in WAL mode that nobody has open has no -wal: to open it would make one.
    if [ "$(od -An -tu1 -j18 -N1 "$db" 2>/dev/null | tr -d ' ')" = 2 ]; then
        if [ ! -e "$db-wal" ]; then how='mode=ro&immutable=1'
        elif [ ! -e "$db-shm" ]; then echo 'problem it was left in the middle of a change (a -wal, no -shm)'; exit 0
        fi
    fi
    words=$(printf '.timeout 2000\nPRAGMA trusted_schema=OFF;\nSELECT COUNT(*) FROM %s;\n' "$table" |
        sqlite3 -readonly -batch -bail -init /dev/null "file:$address?$how" 2>&1)
    rc=$?
    [ $rc = 0 ] || { printf 'problem %s\n' "$words" | head -n 1; exit 0; }
    printf 'rows %s\nsize %s\n' "$words" "$(wc -c <"$db" | tr -d ' ')"
}
count
if [ -n "$interval" ]; then sleep "$interval"; count; fi
exit 0
"""


def read_rows(done: Completed) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """The numbers of rows, the sizes in bytes, and what was wrong (empty: nothing).

    Raises ProbeError when nobody could count.
    """
    if done.timed_out:
        raise ProbeError("the rows could not be counted in time")
    if done.exit_code != 0:
        raise ProbeError(done.stderr.strip() or f"the rows could not be counted (exit code {done.exit_code})")
    reported = [it.partition(" ")[::2] for it in done.stdout.splitlines()]
    problem = next((rest.strip() for word, rest in reported if word == "problem"), "")
    if problem == "no sqlite3":
        raise ProbeError("sqlite3 is not on this host")
    rows = tuple(int(rest) for word, rest in reported if word == "rows" and rest.strip().isdigit())
    sizes = tuple(int(rest) for word, rest in reported if word == "size" and rest.strip().isdigit())
    if not rows and not problem:
        raise ProbeError(f"sqlite3 gave no number: {done.stdout.strip()[:200]}")
    return rows, sizes, problem
