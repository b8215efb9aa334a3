"""What figures depend on: nothing comes in, a description of processor, versions and commit goes out."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import llvmlite.binding

ROOT = Path(__file__).parents[2]
"""The checkout, where this is one."""

FEATURES = {
    "AVX2": ("avx2",),
    "AVX-512": ("avx512f",),
    "NEON": ("neon",),
    "SVE": ("sve",),
    "bfloat16": ("avx512bf16", "amx-bf16", "bf16"),
}
"""Processor features that matter here, and LLVM's names for them."""

LIBRARIES = (
    "numpy",
    "numba",
    "gymnasium",
    "pettingzoo",
    "torch",
    "rust-reversi",
    "pgx",
    "jax",
    "open_spiel",
    "pygame-ce",
)


def cores() -> list[int]:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def describe() -> dict[str, Any]:
    """Return the processor, its features, its cores, the system, versions of libraries and the commit, None without one."""
    return {
        "processor": _processor(),
        "features": _features(),
        "cores": len(cores()),
        "system": platform.platform(),
        "versions": {"python": platform.python_version(), **_versions()},
        "commit": _commit(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name} ({llvmlite.binding.get_host_cpu_name()})"


def _features() -> list[str]:
    try:
        has = llvmlite.binding.get_host_cpu_features()
    except RuntimeError:  # LLVM can't tell on this system
        return []
    return [feature for feature, names in FEATURES.items() if any(has.get(name) for name in names)]


def _versions() -> dict[str, str]:
    found = {}
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    if not (ROOT / ".git").exists():  # an installed package may lie in somebody else's checkout
        return None
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        described = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return described.stdout.strip()
