"""The names of a host's fields: the right names, other words with the same meaning, and misspelt names.

A field that nobody reads is no mistake, because the files belong to other programs, too.  A misspelt field of runbook
would silently have a wrong effect: ``stauts: offline`` leaves a host ready, ``hostname: 10.0.0.1`` leaves it without
an address.  So a name that resembles one of runbook's fields, by its letters or its meaning, is refused if that field
is missing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from functools import lru_cache

HOST_FIELDS = frozenset(
    [
        "ssh_host",
        "tailscale_ip",
        "fallback_host",
        "ssh_user",
        "ssh_port",
        "ssh_key",
        "ssh_proxy",
        "transport",
        "container",
        "container_engine",
        "container_host",
        "container_id",
        "container_user",
        "status",
        "role",
        "region",
        "provider",
        "gpu",
        "cuda_capable",
        "has_gpu",
        "gpu_type",
        "is_ephemeral",
        "is_container",
        "cloudflare_tunnel",
        "cloudflare_service_token_id",
        "cloudflare_service_token_secret",
    ]
)
"""The fields that runbook reads."""

OTHERS = frozenset(["tailscale_ipv6"])
"""Names that resemble one of runbook's fields but mean something else."""

_SYNONYMS: Mapping[str, str] = {
    "ssh_host": "host hostname host_name ip ip_address ipaddr address addr public_ip public_ip_address private_ip "
    "ansible_host ansible_ssh_host ssh_hostname ssh_ip ssh_address fqdn dns dns_name",
    "ssh_user": "user username user_name login remote_user ansible_user ansible_ssh_user ssh_username ssh_login",
    "ssh_port": "port ansible_port ansible_ssh_port",
    "ssh_key": "key_file keyfile key_path identity_file identityfile private_key_file private_key_path ssh_key_file "
    "ssh_key_path ssh_private_key_file ansible_ssh_private_key_file ansible_private_key_file",
    "ssh_proxy": "proxy proxy_jump proxyjump jump jump_host jumphost bastion bastion_host gateway ssh_jump ssh_bastion",
    "transport": "connection ansible_connection",
    "status": "state host_status node_status",
    "role": "roles",
    "gpu": "gpus",
    "is_ephemeral": "ephemeral",
    "fallback_host": "fallback fallback_ip",
    "tailscale_ip": "tailscale tailscale_host",
}
"""Other words for runbook's fields, as in the inventories of ansible, pyinfra, Rundeck and the clouds."""

MEANT = {word: field for field, words in _SYNONYMS.items() for word in words.split()}
ALIKE = 0.82
"""The minimum similarity of a mistyped name to a field: ``stauts`` and ``status`` have 0.83, ``rule`` and ``role``
0.75.
"""


def slips(names: Collection[str], there: Collection[str]) -> dict[str, str]:
    """Return each of *names* that is a misspelt field of runbook, with the right name.

    A misspelt field is not reported if the right field is in *there* as well; it is then another program's field.
    """
    found = {name: _meant(name) for name in names if name not in HOST_FIELDS}
    return {name: meant for name, meant in found.items() if meant and meant not in there}


@lru_cache(maxsize=4096)
def _meant(name: str) -> str:
    """Return the field of runbook that was probably meant by *name*; empty if none."""
    plain = re.sub(r"[-. ]", "_", name.strip().casefold())
    if name in OTHERS or plain in HOST_FIELDS:
        return plain if plain in HOST_FIELDS else ""
    if plain in MEANT or plain in OTHERS or len(plain) < 4:
        return MEANT.get(plain, "")
    letters = plain.replace("_", "")
    same = [field for field in sorted(HOST_FIELDS) if field.replace("_", "") == letters]
    if same:
        return same[0]
    # a name of more words than the field has is another name: provider_id, status_note
    fields = [field for field in sorted(HOST_FIELDS) if field.count("_") == plain.count("_")]
    return next(iter(get_close_matches(plain, fields, n=1, cutoff=ALIKE)), "")
