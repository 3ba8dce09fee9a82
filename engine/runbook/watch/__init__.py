"""What a watcher decides: triggers, its memory, and a fixed order of questions; no I/O."""
