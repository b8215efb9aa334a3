"""Settings for all tests."""

import torch

# The networks in the tests are tiny: a second thread only waits, and on a busy machine it waits long.
torch.set_num_threads(1)
