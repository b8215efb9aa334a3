"""The learner: self-play PPO on Rolit, run from a checkout (`python -m training.train`). It is not installed."""
