"""The cache of builds: its path and size, builds in progress, and leftovers of killed ones."""

from __future__ import annotations

import os

from trifold.build import cache, cleaning
from trifold.machine.diagnosis import Part


def cache_of_builds() -> Part:
    folder = cache.cache_folder()
    if not folder.exists():
        parent = next(path for path in folder.parents if path.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            return Part("cache", "fault", f"{folder} cannot be created", "export TRIFOLD_CACHE_DIR=$(mktemp -d)")
        return Part("cache", "ok", f"{folder}, not yet there")
    size = cleaning.size_of(folder)
    cache.builds_folder()
    return Part("cache", "ok", f"{folder}, {size / 2**20:.1f} MiB")


def builds() -> Part:
    """Held locks, and leftovers of killed builds; the remedy keeps all complete builds of the last month."""
    held, left = [], []
    for entry in cleaning.entries(cache.cache_folder() / "builds"):
        if entry.is_held():
            held.append(entry.name)
        else:
            left += entry.leftovers()
    if left:
        found = f"{len(left)} left half-way by a process that was killed; they are never loaded"
        return Part("builds", "fault", found, "trifold clean --older-than 30")
    return Part("builds", "ok", f"under way: {', '.join(held)}" if held else "none under way")
