"""The text of a playbook of any length."""

from __future__ import annotations


def long_playbook(many: int, *, wrong: bool = False) -> str:
    """Looks of several kinds, a finding for each fourth, and what helps: about *many* steps."""
    looks, findings, acts = [], [], []
    for number in range(many // 2):
        body = (
            f"processes: {{patterns: ['python.*job_{number}\\.py']}}",
            f"command: {{argv: [df, -P, '{{{{ inputs.directory }}}}/{number}']}}",
            "memory: {}\n    samples: {times: 6, every: 10s}",
            f"command: {{argv: [test, -e, '/srv/{{{{ item }}}}/{number}'], accepts: [0, 1]}}\n    each: inputs.names",
        )[number % 4]
        before = f"\n    when: look_{number - 3}.exit_code == 0" if number % 8 == 4 else ""
        looks.append(f"  - id: look_{number}{before}\n    {body}")
        if number % 4 == 0:
            unless = f"\n    unless: [found_{number - 4}]" if number else ""
            name = "lok" if wrong else "look"
            findings.append(
                f"  - id: found_{number}\n    when: {name}_{number}.leftover\n    severity: error{unless}\n"
                f"    say: '{{{{ look_{number}.leftover | length }}}} of job {number}'\n    advise: [Stop {number}.]"
            )
    for number in range(many // 2):
        body = (
            f"pkill: {{patterns: ['python.*job_{number}\\.py'], only: leftover}}",
            f"command: {{check: {{argv: [test, -e, /run/x{number}]}}, do: {{argv: [touch, /run/x{number}]}}}}",
        )[number % 2]
        after = f"\n    after: [act_{number - 1}]" if number else ""
        acts.append(f"  - id: act_{number}\n    for: found_{number // 4 * 4}{after}\n    {body}")
    inputs = (
        "  directory: {about: Where., type: string, default: /mnt}\n"
        "  names: {about: Names., type: array, items: {type: string}, default: [a, b]}"
    )
    sections = (f"inputs:\n{inputs}", "diagnose:", *looks, "findings:", *findings, "remediate:", *acts)
    return "\n".join(("name: long", "about: A long one.", *sections, ""))
