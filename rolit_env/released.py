"""Released models: a short name such as `8x8-2p` comes in, the path of its file comes out, in a checkout or installed."""

from __future__ import annotations

from pathlib import Path

ENDINGS = (".onnx", ".safetensors")
"""Of the files that play: exported policies, and n-tuple tables. The card of each lies beside it."""

PACKAGE = Path(__file__).parent


def models_folder() -> Path:
    """Return the folder of released models: beside the package in a checkout, within it where it is installed."""
    checkout = PACKAGE.parent
    return (checkout if (checkout / "pyproject.toml").is_file() else PACKAGE) / "models"


def released_files() -> dict[str, Path]:
    """Return the released files by their short names, in order."""
    folder = models_folder()
    paths = [path for path in folder.iterdir() if not path.name.startswith(".")] if folder.is_dir() else []
    return {path.stem: path for path in sorted(paths, key=lambda path: path.stem) if path.suffix in ENDINGS}


def file_of(given: str | Path, ending: str) -> Path:
    """Return the file with this ending that a short name stands for; what is no such name is a path itself."""
    path = released_files().get(str(given))
    return path if path and path.suffix == ending else Path(given)


def released_names(ending: str = "") -> str:
    """Return the short names, of files with this ending or of all, as a sentence has them."""
    return ", ".join(name for name, path in released_files().items() if path.name.endswith(ending)) or "none"
