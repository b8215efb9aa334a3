"""Counter-test: SuperSuit's wrappers refuse observations with masks, which `observe` takes to the same ends."""

import numpy as np
import pytest

from rolit_env import rolit_v0
from rolit_env.adapters.observe import observe

supersuit = pytest.importorskip("supersuit")


@pytest.mark.parametrize(
    ("wrapper", "arguments", "error", "ours", "shape", "dtype"),
    [
        ("flatten_v0", (), AttributeError, {"flat": True}, (144,), np.int8),
        ("dtype_v0", (np.float32,), AttributeError, {"dtype": np.float32}, (4, 6, 6), np.float32),
        ("frame_stack_v1", (3,), AssertionError, {"frames": 3}, (12, 6, 6), np.int8),
        ("agent_indicator_v0", (), AssertionError, {"indicator": True}, (6, 6, 6), np.int8),
    ],
)
def test_masked_observations(wrapper, arguments, error, ours, shape, dtype):
    with pytest.raises(error, match="Dict"):
        getattr(supersuit, wrapper)(rolit_v0.env(size=6), *arguments)
    env = observe(rolit_v0.env(size=6), **ours)
    env.reset(seed=0)
    for agent in env.agent_iter():
        seen, _, termination, _, _ = env.last()
        assert seen["observation"].shape == shape
        assert seen["observation"].dtype == dtype
        env.step(None if termination else env.action_space(agent).sample(seen["action_mask"]))
