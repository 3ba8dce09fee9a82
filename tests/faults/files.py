"""Files and inputs that nothing can be done with: said at once, and nobody is connected to."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.environment import LOCAL, LOOK, Place, Told

NOT_ALMIGHTY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
"""What makes root mind the modes of files."""

HUGE = f"name: toy\nabout: {'x' * 9_000_000}\n{LOOK}"
DEEP = f"name: toy\ndiagnose: {'[' * 5000}{']' * 5000}\n"
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{it}: &a{it} [{', '.join([f'*a{it - 1}'] * 10)}]\n" for it in range(1, 10)
)

Provoke = Callable[[Place], Told]


def playbook(text: str) -> Provoke:
    """A playbook with this *text*."""
    return lambda place: place.run(str(place.file("toy.yaml", text)))


def inventory(text: str) -> Provoke:
    """An inventory with this *text*."""
    return lambda place: place.run(place.playbook(), inventory=place.file("inventory.yaml", text))


def unreadable_playbook(place: Place) -> Told:
    """A playbook without any permission."""
    place.file("toy.yaml", f"name: toy\n{LOOK}").chmod(0)
    return place.run(str(place.folder / "toy.yaml"), before=NOT_ALMIGHTY)


def unreadable_inventory(place: Place) -> Told:
    """An inventory without any permission."""
    path = place.file("inventory.yaml", LOCAL)
    path.chmod(0)
    return place.run(place.playbook(), inventory=path, before=NOT_ALMIGHTY)


def missing_input(place: Place) -> Told:
    """A playbook that has to be told which files it is about, and is not."""
    return place.run("raise-timeouts")
