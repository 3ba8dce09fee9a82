"""Parse and print sizes."""

from __future__ import annotations


def bytes_of(number: float) -> str:
    """Return *number*, a number of bytes, as text: ``512 B``, ``4.0 KiB``, ``1.5 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < (1024 if unit == "B" else 1023.95):  # 1024.0 MiB is 1.0 GiB
            return f"{number:.1f} {unit}" if unit != "B" else f"{number:.0f} B"
        number /= 1024
    return f"{number:.1f} TiB"
