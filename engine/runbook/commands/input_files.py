"""Find the files that the user names, and read them into values.

Parsers are imported where they are used: a completion reads names from this module, and parses nothing for that.
"""

from __future__ import annotations

import gc
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runbook.commands.inventory_sources import is_source, source_meant, source_text, split_at_colons
from runbook.commands.options import GivenInputs
from runbook.connections import transports
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.extensions import PLAYBOOKS, installed
from runbook.foreign_files import MOVE_IT, is_foreign, refuse_foreign
from runbook.protocols import Action
from runbook.text.suggestions import suggest
from runbook.text_files import MAX_INVENTORY_BYTES, kind_of_file, read_text
from runbook.values.inventory import Inventory
from runbook.values.playbook import Playbook, Where
from runbook.values.types import Json, plural

if TYPE_CHECKING:
    from runbook.commands.program_cache import ProgramCache

ENDINGS = (".yaml", ".yml")
RULES_FOLDER = "watch"
"""The folder of the watcher's rules, in the working directory."""
DEFAULT_INVENTORY = "inventory/distributed_hosts.yaml"
CHECKED = "checked.json"
"""The cache of the playbooks without a mistake: the path of each, with the digests of its text and of all its files."""
MOST_CHECKED = 500
LARGEST_SENT = 256 * 1024
"""The maximum number of bytes of a file whose text is sent to every host."""


def library() -> Path:
    """Return the folder of the playbooks that ship with runbook: beside the package in a checkout, else inside it."""
    inside = Path(__file__).parents[1] / "playbooks"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "playbooks"


def own_folders() -> tuple[Path, ...]:
    """Return the folders of the user's own playbooks: ``./playbooks``, then those in ``$RUNBOOK_PLAYBOOKS``."""
    named = os.environ.get("RUNBOOK_PLAYBOOKS", "").split(os.pathsep)
    return (Path("playbooks"), *(Path(word).expanduser() for word in named if word))


def collections() -> Mapping[Path, str]:
    """Return the folders of playbooks in installed packages, each with the name of its package."""
    found: dict[Path, str] = {}
    for extension in installed(PLAYBOOKS):
        spec = find_spec(extension.module)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            found[Path(place)] = extension.package
    return found


def shipped() -> tuple[Path, ...]:
    """Return the folders with installed playbooks: those of packages, and that of the library."""
    return (*collections(), library())


def find_playbook(name: str) -> Path:
    """Return the file of the playbook *name*: a path, or else a playbook of the user, or else an installed one.

    Raises ConfigError, also if a name without a ``/`` leads to a file that another user could have put there.
    """
    if Path(name).is_file():
        return Path(name) if os.sep in name else refuse_foreign(Path(name))
    named = [folder / f"{name}{ending}" for folder in (*own_folders(), *shipped()) for ending in ("", *ENDINGS)]
    found = [path for path in named if path.is_file()]
    if found:
        hint = f"that of the library is {found[-1]}" if len(found) > 1 and found[-1].parent == library() else ""
        if found[0].parent not in shipped():
            return refuse_foreign(found[0], hint)
        if len(found) > 1:
            raise ConfigError(f"the playbook {name} is in {found[0].parent} and in {found[1].parent}: give its path")
        return found[0]
    if Path(name).exists():
        raise ConfigError(f"cannot read {name}: {kind_of_file(Path(name))}")
    known = sorted({playbook_file.stem for playbook_file in playbook_files()})
    hint = suggest(Path(name).stem, known)
    raise ConfigError(f"no playbook {name!r}: not a file, not in {_searched()}, not in the library ({hint})")


def _searched() -> str:
    """Return the user's own playbook folders in words, for a message."""
    return ", not in ".join(["./playbooks", *map(str, own_folders()[1:])])


def playbook_files() -> tuple[Path, ...]:
    """Return the file of every playbook that can be named without a path.

    A playbook of the user hides a playbook of the library with the same name.
    """
    found: dict[str, Path] = {}
    for folder in (*own_folders(), *shipped()):
        for path in sorted(folder.glob("*.y*ml")) if folder.is_dir() else ():
            if path.suffix in ENDINGS:
                found.setdefault(path.stem, path)
    return tuple(found[word] for word in sorted(found))


@dataclass(frozen=True, slots=True)
class KnownPlaybooks:
    """The playbooks that can be named without a path: usable and faulty ones."""

    usable: Mapping[str, Playbook]
    faulty: Mapping[str, str]
    """The files that cannot be used, each with the reason."""


def known_playbooks(actions: Mapping[str, Action]) -> KnownPlaybooks:
    """Read every playbook that can be named without a path."""
    usable, faulty = dict[str, Playbook](), dict[str, str]()
    for path in playbook_files():
        try:
            usable[path.stem] = read_playbook(find_playbook(path.stem), actions)
        except ConfigError as error:
            count = plural(len(error.problems), "mistake")
            faulty[path.stem] = f"it cannot be used: {count} (runbook check {path.stem})"
    return KnownPlaybooks(usable, faulty)


class FilesRead:
    """The files that a playbook is made from, with digests of the texts that were read.

    A file may be written to while a playbook is checked: what counts is the text that was checked.
    """

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}

    def note(self, path: Path, text: str) -> None:
        """Note that *text* was read from *path*."""
        self.digests[str(path.absolute())] = sha256(text.encode()).hexdigest()

    def include(self, name: str, file: str) -> tuple[str, str]:
        """Read an included playbook, as ``open_included`` does."""
        found, text = open_included(name, file)
        self.note(Path(found), text)
        return found, text

    def beside(self, name: str, playbook: str, included: bool = False) -> str:
        """Read a file that a step uses, as ``read_beside`` does."""
        text = read_beside(name, playbook, included)
        self.note(Path(playbook).resolve().parent / name, text)
        return text


def read_playbook(path: Path, actions: Mapping[str, Action], files: FilesRead | None = None) -> Playbook:
    """Read the playbook in *path*.  Raises ConfigError with every mistake in it.

    The playbook is not checked if this version of runbook has already checked the same text of the playbook and of its
    included files; with *files*, which then has what was read, it is checked in any case.
    """
    text = read_text(path)
    noted = FilesRead() if files is None else files
    noted.note(path, text)
    return parse_checked(text, path, actions, noted.include, noted.beside, again=files is not None)


def parse_checked(
    text: str,
    path: Path,
    actions: Mapping[str, Action],
    opened: Callable[[str, str], tuple[str, str]],
    read: Callable[[str, str, bool], str],
    *,
    again: bool = False,
    called: str = "",
) -> Playbook:
    """Return the playbook in *text*, which stands for the file *path*.  Raises ConfigError with every mistake in it.

    It is not checked if this version of runbook has already checked the same text of it and of its included files,
    except with *again*.  *called*: what the cache calls it; empty: by its path.
    """
    from runbook.commands.program_cache import ProgramCache
    from runbook.language.loader import load_playbook

    cache = ProgramCache(CHECKED)
    known = _checked_before(cache)
    place = called or str(path.absolute())
    own = sha256("\0".join([text, *sorted(actions)]).encode()).hexdigest()
    if not again and known.get(place, ())[:1] == [own]:
        with suppress(ConfigError):  # what it includes has changed: all its mistakes are found below
            book = load_playbook(text, str(path), actions, opened, read=read, checked=False)
            if known[place] == [own, book.digest]:
                return book
    book = load_playbook(text, str(path), actions, opened, read=read)
    if known.get(place) != [own, book.digest]:
        known = _checked_before(cache)  # a run beside this one has added what it checked meanwhile
        known.pop(place, None)
        newest = list(known.items())[-MOST_CHECKED:]
        cache.write({**dict(newest), place: [own, book.digest]})
    return book


def _checked_before(cache: ProgramCache) -> dict[str, list[str]]:
    """Return the digests of the playbooks that this version of runbook has checked, by place."""
    kept = cache.read()
    return kept if isinstance(kept, dict) else {}


def open_included(name: str, file: str) -> tuple[str, str]:
    """Return the file and the text of the playbook *name*, which the playbook *file* includes.

    *name* is searched for beside *file*, in the user's own folders, and in the library.  Raises ConfigError if it is
    not
    found, or if its name or a link leads out of these folders.  So a foreign playbook cannot reach other files of the
    user.  For a place outside, the error does not depend on whether a file exists there.
    """
    outside = ""
    for folder in (Path(file).parent, *own_folders(), *shipped()):
        for ending in ("", *ENDINGS):
            path = folder / f"{name}{ending}"
            if path.suffix not in ENDINGS or "\0" in name:
                continue
            real = path.resolve()
            if not real.is_relative_to(folder.resolve()) or real.suffix not in ENDINGS:
                outside = outside or str(folder)
            elif path.is_file():
                return str(path), read_text(path if folder in shipped() else refuse_foreign(path, MOVE_IT))
    if outside:
        hint = (
            f"a playbook is included from its own folder, {_searched().replace(', not in', ',')} or the library, "
            "and its name ends in .yaml"
        )
        raise ConfigError(Problem(message=f"no playbook {name!r} exists in {outside}", hint=hint))
    known = sorted({playbook_file.stem for playbook_file in playbook_files()})
    hint = suggest(Path(name).stem, known)
    raise ConfigError(f"no playbook {name!r}: not beside {file}, not in {_searched()}, not in the library ({hint})")


def read_beside(name: str, playbook: str, included: bool = False) -> str:
    """Return the text of the file *name* that a step of *playbook* uses: relative to the playbook's folder, or
    absolute.

    Raises ConfigError for a file that is missing, no text, or too large for hosts.  A file outside the folder must be
    readable for every user; for an *included* playbook, all its parent directories must be accessible, too.
    """
    folder = Path(playbook).resolve().parent
    path = Path(name) if Path(name).is_absolute() else (folder / name)
    if not Path(name).is_absolute() and not path.resolve().is_relative_to(folder):
        raise ConfigError(
            f"{name} lies outside the playbook's folder {folder}: move it there, or write an absolute path"
        )
    if not path.is_file():
        raise ConfigError(f"cannot read {path}: {'not a file' if path.exists() else 'there is no such file'}")
    if not path.resolve().is_relative_to(folder) and not _readable_by_all(path.resolve(), way=included):
        raise ConfigError(
            f"{path} lies outside the playbook's folder {folder}, and not every user can read it: move it there"
        )
    if not Path(name).is_absolute() and not is_foreign(Path(playbook)):
        refuse_foreign(path, MOVE_IT)
    if path.stat().st_size > LARGEST_SENT:
        raise ConfigError(f"{path} is larger than {LARGEST_SENT // 1024} KiB, the maximum for what is sent to hosts")
    text = read_text(path)
    if "\0" in text:
        raise ConfigError(f"{path} is not a text file: it contains a NUL byte")
    return text


def _readable_by_all(path: Path, *, way: bool) -> bool:
    """Whether every user can read *path*; *way*: and can also enter all its parent directories."""
    closed = way and any(not folder.stat().st_mode & stat.S_IXOTH for folder in path.parents)
    return not closed and bool(path.stat().st_mode & stat.S_IROTH)


def found_inventories(given: Sequence[str]) -> tuple[Path, ...]:
    """Return the inventory files and sources: *given*, or those of ``$RUNBOOK_INVENTORY`` (separated by ``:``), or the
    default.

    Empty if there is none of them.  Raises ConfigError if another user could have written the default.
    """
    if given:
        return tuple(Path(word).expanduser() for word in given)
    if named := os.environ.get("RUNBOOK_INVENTORY"):
        return tuple(Path(part).expanduser() for part in split_at_colons(named))
    if Path(DEFAULT_INVENTORY).is_file():
        return (refuse_foreign(Path(DEFAULT_INVENTORY)),)
    return ()


def inventory_paths(given: Sequence[str]) -> tuple[Path, ...]:
    """Return the inventory files that ``found_inventories`` finds.  Raises ConfigError if there is none."""
    if found := found_inventories(given):
        return found
    raise ConfigError(f"no inventory: give one with -i FILE, in $RUNBOOK_INVENTORY, or as ./{DEFAULT_INVENTORY}")


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Pause the garbage collector within this context; it would scan all values of a long file again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def inventory_text(path: Path) -> str:
    """Return the text of the inventory file *path*, or of the source of that name.  Raises ConfigError."""
    if is_source(str(path)):
        return source_text(str(path))
    if not path.exists() and (hint := source_meant(str(path))):
        raise ConfigError(Problem(message=f"there is no file {path}", hint=hint))
    return read_text(path, MAX_INVENTORY_BYTES)


def read_inventory(paths: Sequence[Path]) -> Inventory:
    """Read every host in *paths*.  Raises ConfigError with every mistake in them."""
    from runbook.commands.inventory_files import open_inventory
    from runbook.inventory import read

    texts = [(inventory_text(path), path) for path in paths]
    with no_garbage_collection():
        files = [open_inventory(path, text) for text, path in texts]
        parsed = [(file.value, str(path), file.where) for file, path in zip(files, paths, strict=True)]
        inventory = read(parsed, transports.names())
    digest = sha256("\0".join(text for file in files for text in file.texts).encode()).hexdigest()
    return replace(inventory, digest=digest)


def places_of(given: GivenInputs) -> Mapping[str, Where]:
    """Return the place in the inputs file of each input that no option overrides; *given* must be free of mistakes."""
    from runbook.language.yaml_source import parse_playbook

    if not given.inputs_file:
        return {}
    document = parse_playbook(read_text(Path(given.inputs_file)), given.inputs_file)
    options = {option.partition("=")[0] for option in given.inputs}
    tree = document.value if isinstance(document.value, Mapping) else {}
    return {name: document.where((name,)) for name in tree if name not in options}


def read_inputs(given: GivenInputs, playbook: Playbook) -> Mapping[str, Json]:
    """Return the value of every input of *playbook*.  Raises ConfigError for unknown names and wrong values."""
    from runbook.language.inputs import parse_input_option, resolve_inputs

    from_environment = {
        each.name: os.environ[each.env] for each in playbook.inputs if each.env and os.environ.get(each.env)
    }
    values = {**given.below, **from_environment}
    places: dict[str, Where] = {}
    if given.inputs_file:
        of_file, places = read_inputs_file(given.inputs_file, [each.name for each in playbook.inputs], playbook.name)
        values.update(of_file)
    for option in given.inputs:
        name, value = parse_input_option(option, playbook)
        values[name] = value
        places.pop(name, None)
    return resolve_inputs(playbook, values, places)


def names_given(given: GivenInputs, playbook: Playbook) -> frozenset[str]:
    """Return the names of the inputs of *playbook* to which the user gives a value, whatever it is."""
    from_environment = frozenset(each.name for each in playbook.inputs if each.env and os.environ.get(each.env))
    return from_environment | values_given(given.inputs, given.inputs_file).keys() | given.below.keys()


def read_inputs_file(file: str, names: Sequence[str], of: str) -> tuple[dict[str, Json], dict[str, Where]]:
    """Return the inputs in *file*, and their places; *names*: the inputs that *of* has.  Raises ConfigError."""
    from runbook.language.yaml_source import has_key, parse_playbook

    text = read_text(Path(file))
    ours = has_key(text, names)
    document = parse_playbook(text, file, ours=ours)
    tree = document.value
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{file}: expected a mapping of input names to values")
    if tree and not ours:  # whatever it is, nothing of it is repeated
        raise ConfigError(f"{file}: contains no input of {of} (there are: {', '.join(names) or 'none'})")
    return dict(tree), {name: document.where((name,)) for name in tree}


def values_given(options: Sequence[str], file: str) -> dict[str, Json]:
    """Return the unchecked inputs in *options* (``NAME=VALUE``) and in *file*.

    A file that cannot be read is ignored.
    """
    from runbook.language.yaml_source import parse_playbook

    given: dict[str, Json] = {}
    with suppress(ConfigError):
        tree: Any = parse_playbook(read_text(Path(file)), file).value if file else {}
        given |= tree if isinstance(tree, Mapping) else {}
    return given | {name: text for name, _, text in (option.partition("=") for option in options)}
