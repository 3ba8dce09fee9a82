"""What the program concludes of NVLink, its fabric and MIG: readers for tests/support/data_readers.py."""

from __future__ import annotations

from collections.abc import Mapping

from runbook.codec import to_json
from runbook.language.arguments import build
from runbook.library.fabric import fabric, nvlink
from runbook.library.gpu.facts.smi_output import FRAME
from runbook.library.gpu.mig.reading import COLUMNS, misfit, read_mig, sort
from runbook.values.command import Command, Completed
from tests.support.data_cases import Case
from tests.support.probe_driver import drive


def nvlink_errors(case: Case) -> Mapping[str, object]:
    """The counters that are not zero, by nvidia-smi nvlink -e of two GPUs; and how many links are up, where `links` is given."""
    gpus = "\n".join(f"{at}, {uuid}, 00000000:{at}0:00.0, x, Disabled" for at, uuid in enumerate(case.given["uuids"]))
    parts = {"gpus": gpus, "links": str(case.given["links"]), "errors": case.text, "again": case.text}
    done = "".join(f"{FRAME} begin {name} x\n{text}\n\n{FRAME} end 0\n" for name, text in parts.items())
    empty = Completed(exit_code=0, stdout="probed\npci 0000:00:00.0\n")
    state = drive(
        nvlink.probe(build(nvlink.Args, {})),
        Answers((empty, empty), (Completed(exit_code=0, stdout=done),)),
    )
    return {"active": state.active, "counted": to_json(state.counted), "growing": to_json(state.growing)}


class Answers:
    """A connection that gives these answers, one tuple after the other."""

    def __init__(self, *rounds: tuple[Completed, ...]) -> None:
        self.rounds = iter(rounds)

    def run(self, *_commands: Command) -> tuple[Completed, ...]:
        return next(self.rounds)


def mig(case: Case) -> Mapping[str, object]:
    """How GPU 0 is divided, by the tables of nvidia-smi mig (lgi, lci, lgip, lgipp) and its -L; and whether `wanted` fits."""
    assert isinstance(case.says, Mapping)
    gpus = f"{FRAME} begin gpus {','.join(COLUMNS)}\n0, GPU-0, 00000000:1A:00.0, x, Enabled, Enabled\n\n{FRAME} end 0\n"
    codes = case.given.get("exit_codes", {})
    parts = (
        f"{FRAME} begin {name} x\n{text}\n\n{FRAME} end {codes.get(name, 0)}\n" for name, text in case.says.items()
    )
    (gpu,) = read_mig(Completed(exit_code=0, stdout="".join((gpus, *parts))))
    wanted = sort(case.given.get("wanted", ()))
    return {
        "profiles": to_json(gpu.profiles), "devices": list(gpu.devices), "offers": sorted(gpu.offers),
        "misfit": misfit(wanted, gpu.offers) if wanted else "",
    }  # fmt: skip


def fabric_manager(case: Case) -> Mapping[str, object]:
    """The version of the fabric manager, and what of its words in the journal counts."""
    assert isinstance(case.says, Mapping)
    facts = [f"version\t{it}" for it in str(case.says.get("version", "")).splitlines()]
    facts += [f"said\t{it}" for it in str(case.says.get("journal", "")).splitlines()]
    found = fabric.facts_of(Completed(exit_code=0, stdout="\n".join(["installed", *facts, "end", ""])))
    return {
        "version": to_json(fabric.version_of(found)), "trouble": fabric.trouble(found),
        "nothing_to_do": fabric.nothing_to_do(found),
    }  # fmt: skip
