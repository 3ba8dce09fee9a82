"""Sign plans and orders with SSH keys, and check signatures (``ssh-keygen -Y``)."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from runbook.commands.inventory_sources import is_source
from runbook.commands.plans.plan_file import read_signature, read_signers
from runbook.dataclass import dataclass
from runbook.errors import ConfigError

NAMESPACE = "runbook-plan"
"""The purpose of a signature: a signature for git, or for a file, does not count for a plan."""
WITHIN = 30
"""The seconds that checking a signature may take."""
SIGNERS = "allowed_signers"
KEYS = ("id_ed25519", "id_ecdsa", "id_ed25519_sk", "id_ecdsa_sk", "id_rsa")


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A valid signature."""

    file: str
    principals: tuple[str, ...]
    """All names of the key in the signers' file; the first is the name that the signature was checked for."""
    key: str
    """The fingerprint of the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A signature that does not count, and the reason."""

    file: str
    why: str


def sign(content: bytes, key: str, namespace: str = NAMESPACE) -> str:
    """Sign *content* with *key*, and return the signature; *key*: a private key, or a public key whose private key
    an agent has.  *namespace*: the purpose of the signature.

    Raises ConfigError.
    """
    argv = (_program(), "-Y", "sign", "-n", namespace, "-f", key)
    done = subprocess.run(argv, input=content, capture_output=True, check=False)  # may ask for a passphrase, or a touch
    if done.returncode:
        raise ConfigError(f"could not sign with {key}: {_last_line(done.stderr)}")
    return done.stdout.decode()


def default_key() -> str:
    """Return the first key that ``ssh`` itself would use.  Raises ConfigError if there is none."""
    folder = Path("~/.ssh").expanduser()
    for name in KEYS:
        for path in (folder / name, folder / f"{name}.pub"):
            if path.is_file():
                return str(path)
    raise ConfigError(f"no key to sign with in {folder}: name one with --key FILE (a .pub file: the agent has the key)")


def signature_files(plan: str, given: Sequence[str]) -> list[str]:
    """Return the files with signatures: *given*, and those beside *plan* (``PLAN.NAME.sig``)."""
    return [*given, *sorted(path for path in glob.glob(f"{glob.escape(plan)}.*.sig") if path not in given)]


def signers_file(given: str, inventories: Sequence[str]) -> Path | None:
    """Return the file that assigns keys to users: *given*, ``$RUNBOOK_ALLOWED_SIGNERS``, or a file in a known place."""
    if named := given or os.environ.get("RUNBOOK_ALLOWED_SIGNERS", ""):
        return Path(named).expanduser()
    config = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "runbook"
    places = [*(Path(inventory).parent for inventory in inventories if not is_source(inventory)), config]
    return next((folder / SIGNERS for folder in places if (folder / SIGNERS).exists()), None)


def checked(
    content: bytes, files: Sequence[str], signers: Path, namespace: str = NAMESPACE
) -> tuple[list[Approval], list[Refused]]:
    """Check each of *files*; return valid signatures of *content* by users in *signers*, and the others.  Raises
    ConfigError.
    """
    allowed = read_signers(signers)
    good: list[Approval] = []
    refused: list[Refused] = []
    with tempfile.TemporaryDirectory(prefix="runbook-") as folder:
        (known := Path(folder, SIGNERS)).write_bytes(allowed)
        for file in files:
            try:
                (own := Path(folder, "signature")).write_bytes(read_signature(file))
            except ConfigError as error:  # anybody who can write beside the plan must not keep others from applying it
                refused.append(Refused(file=file, why=str(error)))
                continue
            found = _checked(content, str(own), allowed, str(known), str(signers), namespace)
            if isinstance(found, str):
                refused.append(Refused(file=file, why=found))
            else:
                good.append(Approval(file=file, principals=found[0], key=found[1]))
    return good, refused


def counted(approvals: Sequence[Approval], excluded: frozenset[str]) -> tuple[list[Approval], list[Refused]]:
    """Return the approvals by different people, and the others; people whose user names are in *excluded* do not
    count.
    """
    good: list[Approval] = []
    refused: list[Refused] = []
    for approval in approvals:
        if same_person(approval.principals, excluded):
            why = f"{', '.join(approval.principals)} made the plan or applies it: another person has to approve it"
            refused.append(Refused(file=approval.file, why=why))
        elif any(approval.key == other.key or same_person(approval.principals, other.principals) for other in good):
            refused.append(
                Refused(file=approval.file, why=f"{approval.principals[0]} has approved it already: that counts once")
            )
        else:
            good.append(approval)
    return good, refused


def same_person(names: Iterable[str], others: Iterable[str]) -> bool:
    """Whether one of *names* and one of *others* belong to the same person; each may be a principal or a user name."""
    return bool(set(map(_person, names)) & set(map(_person, others)))


def _person(name: str) -> str:
    """Return the user name of a principal: ``alice`` for ``Alice@example.com``."""
    return name.partition("@")[0].casefold()


def _checked(
    content: bytes, file: str, allowed: bytes, known: str, shown: str, namespace: str
) -> tuple[tuple[str, ...], str] | str:
    """Return the principals of the signature *file*, and its key; or the reason why the signature does not count."""
    found = _ask(("find-principals", "-s", file, "-f", known), b"")
    principals = tuple(found.stdout.decode(errors="replace").split())
    if found.returncode or not principals:
        why = _last_line(found.stderr)
        return f"no signature, or its key is not in {shown} (a line there says whose it is: NAME@HOST KEY): {why}"
    if vague := _vague(principals):
        return f"its key belongs to {vague} in {shown}: {_PATTERN}"
    done = _ask(("verify", "-s", file, "-f", known, "-I", principals[0], "-n", namespace), content)
    key = re.search(r"\bSHA256:[A-Za-z0-9+/]{43}", done.stdout.decode(errors="replace"))
    if done.returncode or key is None:
        what = namespace.removeprefix("runbook-")
        return f"not a good signature of this {what} by {principals[0]}: {_last_line(done.stderr)}"
    names = tuple(dict.fromkeys((*principals, *_names_of_key(key.group(), allowed))))
    if vague := _vague(names):
        return f"its key belongs to {vague} in {shown}, too: {_PATTERN}"
    return names, key.group()


_PATTERN = "a pattern does not say who approved; name the person there"


def _vague(principals: Iterable[str]) -> str:
    """Return the first of *principals* that is a pattern; empty if none is."""
    return next((principal for principal in principals if set(principal) & set("*?!")), "")


def _names_of_key(key: str, allowed: bytes) -> Iterator[str]:
    """Yield the principals of all lines of *allowed* with this key; ssh-keygen itself names only the first line's."""
    for line in allowed.decode(errors="replace").splitlines():
        words = line.split()
        if words and not line.lstrip().startswith("#") and key in map(_fingerprint, words):
            quoted = re.match(r'\s*"([^"]*)"', line)
            yield from re.split(r"[,\s]+", quoted[1].strip() if quoted else words[0])


def _fingerprint(word: str) -> str:
    """Return the fingerprint of *word*, a key in base64; empty if it is no key."""
    try:
        digest = sha256(b64decode(word, validate=True)).digest()
    except ValueError:
        return ""
    return f"SHA256:{b64encode(digest).decode().rstrip('=')}"


def _ask(words: Sequence[str], content: bytes) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            (_program(), "-Y", *words), input=content, capture_output=True, check=False, timeout=WITHIN
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"ssh-keygen did not answer within {WITHIN} s: the approvals cannot be checked") from error


def _program() -> str:
    found = shutil.which("ssh-keygen")
    if found is None:
        raise ConfigError("approvals need ssh-keygen (OpenSSH 8.2 or newer), and there is none in $PATH")
    return found


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "ssh-keygen did not say why"
