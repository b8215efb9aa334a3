"""Libraries for reinforcement learning meet Rolit here: what each would otherwise get wrong, in one small module each.

Import the modules by name, such as `rolit_env.adapters.pool`: this package imports none of them, so that nobody needs a
library that they don't use. `examples/` shows each at work.
"""
