"""The version of the installed package, as text."""

from __future__ import annotations

from importlib import metadata

try:
    __version__ = metadata.version("rolit-env")
except metadata.PackageNotFoundError:  # a checkout that was never installed
    __version__ = "unknown"
