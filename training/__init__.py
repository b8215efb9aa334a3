"""The learner: self-play PPO on Rolit, run from a checkout (`python -m training.train`). It is not installed."""

import os

# Between two layers GNU OpenMP's threads wait in a loop, by default for milliseconds, and so keep the cores from the threads
# of kernels, which take turns with theirs. Now they sleep soon. It is read once, as torch is loaded.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
