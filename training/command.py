"""What the training commands share: a body that does the work comes in, an exit code comes out."""

from __future__ import annotations

import sys
from collections.abc import Callable

from jsonargparse import ArgumentError

from rolit_env.errors import RolitError


def run_command(program: str, body: Callable[[], int]) -> int:
    """Run `body` and return its exit code, 2 after one line on stderr about what was wrong, or 130 after Ctrl-C."""
    try:
        return body()
    except MemoryError:
        print(f"{program}: there is not enough memory for this; ask for fewer games", file=sys.stderr)
        return 2
    except UnicodeDecodeError as error:
        print(f"{program}: a file that was given is no text in UTF-8 ({error})", file=sys.stderr)
        return 2
    except (RolitError, ArgumentError, OSError) as error:
        print(f"{program}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
