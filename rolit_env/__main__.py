"""`python -m rolit_env`: the command line `rolit` where its script is not on the path."""

from __future__ import annotations

import sys

from rolit_env.cli import main

sys.exit(main())
