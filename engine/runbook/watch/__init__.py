"""The decisions of a watcher: triggers, its memory, and a fixed order of questions; no I/O."""
