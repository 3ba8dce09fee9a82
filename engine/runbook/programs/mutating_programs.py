"""Programs that are known to change a host, so that a probe with such a program is refused."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runbook.values.plan import Risk


class MutatingCommand(NamedTuple):
    """The known effect of a command line."""

    words: str
    risk: Risk


_EDITS = (
    "mv cp tee truncate touch mkdir install ln chmod chown chgrp setfacl patch logger mount umount swapon swapoff "
    "useradd usermod userdel groupadd passwd visudo update-grub ldconfig pip pip3 npm easy_install"
)
_DELETES = "rm rmdir unlink shred wipefs mkfs fdisk parted sgdisk"
_KILLS = "kill pkill killall killall5 skill xkill scancel"
_HARDWARE = "modprobe rmmod insmod setpci nvidia-persistenced"
_REBOOTS = "reboot shutdown poweroff halt kexec init telinit"
_PLAIN: dict[str, Risk] = {
    **dict.fromkeys(_EDITS.split(), Risk.EDITS_FILES),
    **dict.fromkeys(_DELETES.split(), Risk.DELETES_DATA),
    **dict.fromkeys(_KILLS.split(), Risk.KILLS_PROCESSES),
    **dict.fromkeys(_HARDWARE.split(), Risk.RESETS_HARDWARE),
    **dict.fromkeys(_REBOOTS.split(), Risk.REBOOTS),
    "ipcrm": Risk.DELETES_DATA,
    "wrmsr": Risk.RESETS_HARDWARE,
    **dict.fromkeys(("fsfreeze", "renice"), Risk.RESTARTS_SERVICES),
    **dict.fromkeys(("at", "batch", "systemd-run"), Risk.UNKNOWN),
}
_SERVICE = (
    "start stop restart reload try-restart reload-or-restart enable disable mask unmask daemon-reload kill isolate "
    "reset-failed set-property edit"
)
_CONTAINER = (
    "rm rmi prune kill stop start restart run create pause unpause update rename pull push build tag load import "
    "commit up down login"
)
_ORCHESTRA = "delete apply create replace patch edit scale drain cordon uncordon taint label rollout"
_NODES = "update resume suspend requeue reconfigure shutdown create delete hold release"
_WORK_TREE = "clone pull checkout switch reset clean push commit merge rebase rm mv fetch stash apply"
_GROUPS = ("container", "image", "system", "volume", "network", "builder", "compose", "service", "stack", "buildx")
_VERBS: dict[str, tuple[str, Risk]] = {
    "systemctl": (_SERVICE, Risk.RESTARTS_SERVICES),
    "service": (_SERVICE, Risk.RESTARTS_SERVICES),
    "supervisorctl": (_SERVICE + " update", Risk.RESTARTS_SERVICES),
    "docker": (_CONTAINER, Risk.DELETES_DATA),
    "podman": (_CONTAINER, Risk.DELETES_DATA),
    "nerdctl": (_CONTAINER, Risk.DELETES_DATA),
    "docker-compose": (_CONTAINER, Risk.RESTARTS_SERVICES),
    "kubectl": (_ORCHESTRA, Risk.DELETES_DATA),
    "scontrol": (_NODES, Risk.RESTARTS_SERVICES),
    "git": (_WORK_TREE, Risk.EDITS_FILES),
    "apt": ("install remove purge autoremove update upgrade full-upgrade dist-upgrade", Risk.EDITS_FILES),
    "apt-get": ("install remove purge autoremove update upgrade dist-upgrade clean", Risk.EDITS_FILES),
    "apt-mark": ("hold unhold auto manual", Risk.EDITS_FILES),
    "yum": ("install remove erase update upgrade clean reinstall", Risk.EDITS_FILES),
    "dnf": ("install remove erase update upgrade clean reinstall", Risk.EDITS_FILES),
    "apk": ("add del update upgrade fix", Risk.EDITS_FILES),
    "tmux": ("kill-server kill-session kill-window kill-pane send-keys new new-session", Risk.KILLS_PROCESSES),
    "timedatectl": ("set-time set-timezone set-local-rtc set-ntp ntp-servers revert", Risk.EDITS_FILES),
    "hostnamectl": (
        "set-hostname hostname set-icon-name icon-name set-chassis chassis set-deployment set-location",
        Risk.EDITS_FILES,
    ),
    "localectl": ("set-locale set-keymap set-x11-keymap", Risk.EDITS_FILES),
    "loginctl": (
        "terminate-session terminate-user terminate-seat kill-session kill-user lock-session lock-sessions "
        "unlock-session unlock-sessions enable-linger disable-linger activate attach flush-devices",
        Risk.KILLS_PROCESSES,
    ),
    "machinectl": ("start stop poweroff reboot terminate kill remove clone rename enable", Risk.KILLS_PROCESSES),
    "busctl": ("call set-property emit", Risk.UNKNOWN),
    "crictl": ("rm rmi rmp stop stopp start run runp create pull update", Risk.DELETES_DATA),
    "ray": ("stop start up down submit", Risk.KILLS_PROCESSES),
    "dcgmi": ("config policy profile", Risk.RESETS_HARDWARE),
    "ip": ("add del delete set flush replace change", Risk.RESTARTS_SERVICES),
}  # fmt: skip
_OPTIONS: dict[str, tuple[str, Risk]] = {
    "nvidia-smi": (
        r"--gpu-reset.*|-r|-pm|--persistence-mode.*|-c|--compute-mode.*|-mig|--multi-instance-gpu.*|-pl|--power-limit.*"
        r"|-e|--ecc-config.*|-ac|-rac|-lgc|-rgc|-lmc|-rmc|-am|-caa|-p|--reset-ecc-errors.*|-gom|-dm|-dci|-dgi|-cgi|-cci|-f|--filename.*",
        Risk.RESETS_HARDWARE,
    ),
    "date": (r"-[a-zA-Z]*s.*|--set.*|[0-9]{10,12}(\.[0-9]+)?", Risk.EDITS_FILES),
    "hostname": (r"[^-].*|-F.*|-b|--file.*|--boot", Risk.EDITS_FILES),
    "hwclock": (r"-[a-zA-Z]*[wsa]|--(systohc|hctosys|set|adjust|setepoch|systz|update-drift).*", Risk.EDITS_FILES),
    "blockdev": (r"--(set|flushbufs|rereadpt).*", Risk.RESETS_HARDWARE),
    "wget": (r"--(post|body)-.*|--method=(?!GET|HEAD).*", Risk.EDITS_FILES),
    "fuser": (r"-[a-zA-Z]*k[a-zA-Z]*|--kill", Risk.KILLS_PROCESSES),
    "sed": (r"-[nErsuz]*i.*|--in-place.*", Risk.EDITS_FILES),
    "perl": (r"-[a-z]*i.*", Risk.EDITS_FILES),
    "dd": (r"of=.*", Risk.DELETES_DATA),
    "find": (r"-delete|-fprint.*|-fls", Risk.DELETES_DATA),
    "sysctl": (r"-w|--write|-p.*|--load.*|--system|[^-=]+=.*", Risk.EDITS_FILES),
    "dmesg": (r"-[a-zA-Z]*[cCDEn].*|--clear|--read-clear|--console-.*", Risk.DELETES_DATA),
    "journalctl": (r"--vacuum-.*|--rotate|--flush|--sync|--setup-keys", Risk.DELETES_DATA),
    "crontab": (r"-r|-e|-|[^-].*", Risk.EDITS_FILES),
    "dpkg": (r"-i|--install|-r|--remove|-P|--purge|--configure", Risk.EDITS_FILES),
    "rpm": (r"-[iUFe].*|--install|--upgrade|--erase", Risk.EDITS_FILES),
    "curl": (
        r"-d.*|--data.*|-F.*|--form.*|-T.*|--upload-file.*|-o.*|-O.*|--output.*|--remote-name.*",
        Risk.EDITS_FILES,
    ),
    "tar": (r"-?[a-zA-Z]*[xcru][a-zA-Z]*|--extract|--create|--append|--delete", Risk.EDITS_FILES),
    "iptables": (r"-[ADIRFXPNZE]|--(append|delete|insert|replace|flush|policy).*", Risk.RESTARTS_SERVICES),
}
_SENDS = re.compile(r"(?:-X|--request[= ]?)\s*(?:POST|PUT|PATCH|DELETE)\b", re.IGNORECASE)
_DATABASES = ("psql", "mysql", "mariadb", "sqlite3", "redis-cli", "mongosh", "clickhouse-client")
_CHANGES_DATA = re.compile(
    r"(?:^|[\s;'\"(])(?:insert|update|delete|drop|truncate|alter|create|replace|grant|revoke|vacuum|"
    r"set|del|flushall|flushdb|shutdown)\b",
    re.IGNORECASE,
)

_QUOTES = " ;'\"(\n\t"
_SHELLS = ("sh", "bash", "dash", "ash", "zsh", "ksh")
_WRAPPERS: dict[str, str] = {
    "sudo": "ugCpThUr", "doas": "u", "env": "uSC", "timeout": "ks", "nice": "n", "ionice": "cnp", "stdbuf": "ioe",
    "time": "fo", "exec": "a", "xargs": "IiLlnPdEas", "nsenter": "t", "ssh": "BbcDEeFIiJLlmOopQRSWw",
    **dict.fromkeys(("nohup", "setsid", "command", "builtin", "busybox", "chroot", "unshare", "taskset"), ""),
    **dict.fromkeys(("!", "{", "if", "then", "else", "elif", "do", "while", "until"), ""),
}  # fmt: skip
"""Programs (and words of the shell) that run another program, with their options that take a value."""

_OPERAND_FIRST = frozenset({"timeout", "chroot", "taskset", "ssh"})
_SEPARATORS = re.compile(r"[;&|()\n]+")
_SUBSTITUTIONS = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_HARMLESS = re.compile(r"/dev/(?:null|stdout|stderr|fd/\d+)|&?\d+|&-|-")


def mutating_command(argv: Sequence[str], script: str = "") -> MutatingCommand | None:
    """Return the worst known effect of a command line, or of POSIX sh text; None if no effect is known."""
    found = list(_in_script(script) if script else _in_argv(list(argv)))
    order = list(Risk)
    return max(found, key=lambda it: order.index(it.risk), default=None)


def _in_argv(argv: list[str]) -> Iterator[MutatingCommand]:
    argv = list(unwrapped(argv))
    if not argv:
        return
    if len(argv) == 1 and " " in argv[0]:  # what ssh hands to a shell
        yield from _in_script(argv[0])
        return
    program, rest = argv[0].rpartition("/")[2], argv[1:]
    if program in _SHELLS:
        yield from _in_shell(rest)
        return
    words = [word for word in rest if not word.startswith("-")]
    if program in _PLAIN and not _only_asks(program, rest):
        yield MutatingCommand(words=program, risk=_PLAIN[program])
    elif program.startswith("mkfs."):
        yield MutatingCommand(words=program, risk=Risk.DELETES_DATA)
    yield from _by_verb(program, rest, words)
    yield from _by_option(program, rest)
    if program == "find":
        yield from _in_find(rest)
    if program in ("docker", "podman", "kubectl") and "exec" in words[:2]:
        yield from _inner_commands(rest)


def _in_shell(rest: list[str]) -> Iterator[MutatingCommand]:
    """Yield the effects of the text after the option -c of a shell."""
    flags = [at for at, word in enumerate(rest) if re.fullmatch(r"-[a-z]*c[a-z]*", word)]
    if flags and len(rest) > flags[0] + 1:
        yield from _in_script(rest[flags[0] + 1])


def _by_verb(program: str, rest: list[str], words: list[str]) -> Iterator[MutatingCommand]:
    """Yield the effects of *program* with one of its *words*, such as ``git push``; ``docker run --rm`` has none."""
    verbs, risk = _VERBS.get(program, ("", Risk.UNKNOWN))
    for verb in _verbs(program, words):
        if verb in verbs.split() and not (verb == "run" and "--rm" in rest):
            yield MutatingCommand(words=f"{program} {verb}", risk=risk)


def _by_option(program: str, rest: list[str]) -> Iterator[MutatingCommand]:
    """Yield the effects of *program* with an option, such as ``sed -i``."""
    if program in _OPTIONS:
        pattern, risk = _OPTIONS[program]
        yield from (
            MutatingCommand(words=f"{program} {word}", risk=risk) for word in rest if re.fullmatch(pattern, word)
        )
    if program in _DATABASES and (found := _CHANGES_DATA.search(" ".join(rest))):
        yield MutatingCommand(words=f"{program} {found[0].strip(_QUOTES)}", risk=Risk.DELETES_DATA)
    if program == "curl" and _SENDS.search(" ".join(rest)):
        yield MutatingCommand(words="curl -X", risk=Risk.UNKNOWN)


def _in_find(rest: list[str]) -> Iterator[MutatingCommand]:
    """Yield the effects of the commands that find runs (``-exec`` and similar)."""
    for at, word in enumerate(rest):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            yield from _in_argv(rest[at + 1 :])


def _verbs(program: str, words: list[str]) -> list[str]:
    """Return the words that may name the operation of the program; options with values may precede it."""
    if program in ("docker", "podman", "nerdctl"):
        return words[1:2] if words[:1] and words[0] in _GROUPS else words[:1]
    if program == "service":
        return words[1:2]
    return words[:3] if program in ("git", "ip", "kubectl") else words[:1]


def _only_asks(program: str, rest: list[str]) -> bool:
    """Whether *program* changes nothing with these arguments: ``mount`` alone, ``kill -0``, ``kill -l``, ``pip
    list``.
    """
    match program:
        case "mount":
            return not rest or rest[0] in ("-l", "-t")
        case "kill":
            return bool(rest) and rest[0] in ("-0", "-l", "-L")
        case "pip" | "pip3" | "npm":
            return bool(rest) and rest[0] in ("list", "show", "freeze", "check", "view", "ls", "--version", "-V")
        case "parted" | "fdisk" | "sgdisk":
            return bool(rest) and rest[0] in ("-l", "-p", "--list", "--print")
    return rest in (["--version"], ["--help"])


def _inner_commands(rest: list[str]) -> Iterator[MutatingCommand]:
    """Yield the effects of the command in ``docker exec [options] CONTAINER COMMAND``."""
    after = rest[rest.index("exec") + 1 :]
    while after and after[0].startswith("-"):
        after = after[2:] if after[0] in ("-u", "--user", "-e", "--env", "-w", "--workdir", "-c", "-n") else after[1:]
    yield from _in_argv([word for word in after[1:] if word != "--"])


def unwrapped(argv: list[str]) -> list[str]:
    """Return *argv* without assignments and wrapper programs before the program."""
    while argv:
        name = argv[0].rpartition("/")[2]
        if re.match(r"[A-Za-z_]\w*=", argv[0]):
            argv = argv[1:]
        elif name == "command" and argv[1:2] in (["-v"], ["-V"]):
            return []
        elif name in _WRAPPERS:
            argv = argv[1:]
            while argv and argv[0].startswith("-"):
                takes = len(argv[0]) == 2 and argv[0][1] in _WRAPPERS[name]
                argv = argv[2:] if takes else argv[1:]
            if name in _OPERAND_FIRST:
                argv = argv[1:]
        else:
            return argv
    return argv


def _in_script(script: str) -> Iterator[MutatingCommand]:
    for inner in _SUBSTITUTIONS.findall(script):
        yield from _in_script(inner[0] or inner[1])
    for words in simple_commands(_SUBSTITUTIONS.sub("x", script)):
        yield from _in_argv([word for word in words if word != ">"])
        for at, word in enumerate(words):
            target = words[at + 1] if at + 1 < len(words) else ""
            if word == ">" and target and not _HARMLESS.fullmatch(target):
                yield MutatingCommand(words=f"> {target}", risk=Risk.EDITS_FILES)


def simple_commands(script: str) -> Iterator[list[str]]:
    """Yield the words of each simple command; a redirection of output becomes the word ``>`` before its target."""
    lexer = shlex.shlex(_tidied(script), posix=True, punctuation_chars=";&|()<>")
    lexer.commenters = ""
    words: list[str] = []
    try:
        for one in lexer:
            if re.fullmatch(r"[;&|()]+", one):
                yield words
                words = []
            elif re.fullmatch(r"[<>&|]*>[<>&|]*", one):
                words.append(">")
            elif one != "<":
                words.append(one)
    except ValueError:  # a quote that does not end as we read it: look at the words as they stand
        for part in _SEPARATORS.split(script):
            yield part.split()
    yield words


def _tidied(script: str) -> str:
    """Return *script* without comments, and with ``;`` at the end of each line."""
    lines = (re.sub(r"(?:^|(?<=\s))#.*", "", line) if line.count("'") % 2 == 0 and line.count('"') % 2 == 0 else line
             for line in script.replace("\\\n", " ").split("\n"))  # fmt: skip
    return " ;\n".join(lines)
