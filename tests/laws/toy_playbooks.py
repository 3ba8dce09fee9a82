"""Playbooks and process tables of toy hosts, as hypothesis draws them."""

from __future__ import annotations

from hypothesis import strategies as st

from runbook.values.playbook import Playbook, Step
from tests.support.toy_actions import book, end, look_at, paint, restart, rule

words = st.sampled_from(["train", "serve", "zombie", "ssh"])


tables = st.dictionaries(st.integers(2, 30), st.tuples(st.integers(1, 3), words), max_size=6)


@st.composite
def playbooks(draw: st.DrawFn) -> Playbook:
    """Playbooks with and without findings, with rungs that hinge on each other."""
    steps: list[Step] = []
    with_findings = draw(st.booleans())
    for number in range(draw(st.integers(1, 4))):
        earlier = [it.id for it in steps]
        keys: dict = {"after": tuple(draw(st.lists(st.sampled_from(earlier), unique=True))) if earlier else ()}
        if with_findings and draw(st.booleans()):
            keys["for_"] = ("held",)
        keys["ignore_failure"] = draw(st.booleans())
        make = draw(st.sampled_from([end, end, end, restart, paint]))
        words_of = (draw(words),) if make is end else ()
        steps.append(make(*words_of, f"s{number}", **keys))
    looks = (look_at(draw(words)),)
    return book(*steps, findings=(rule(),) if with_findings else (), diagnose=looks)
