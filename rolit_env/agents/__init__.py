"""Agents from descriptions: `make_agent("greedy")`, `make_agent("8x8-2p:temperature=1")`."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from rolit_env.agents.base import Agent
from rolit_env.agents.mcts import MctsAgent
from rolit_env.agents.ntuple import NTupleAgent
from rolit_env.agents.policy import PolicyAgent
from rolit_env.agents.scripted import GreedyAgent, PositionalAgent, RandomAgent
from rolit_env.agents.search import AlphaBetaAgent, BestReplyAgent, MaxNAgent, ParanoidAgent, SearchAgent, SearchResult
from rolit_env.errors import AgentError, RolitError
from rolit_env.released import released_files, released_names

__all__ = [
    "AGENTS",
    "Agent",
    "AlphaBetaAgent",
    "BestReplyAgent",
    "GreedyAgent",
    "MaxNAgent",
    "MctsAgent",
    "NTupleAgent",
    "ParanoidAgent",
    "PolicyAgent",
    "PositionalAgent",
    "RandomAgent",
    "SearchAgent",
    "SearchResult",
    "make_agent",
]

AGENTS: dict[str, Callable[..., Agent]] = {
    "random": RandomAgent,
    "greedy": GreedyAgent,
    "positional": PositionalAgent,
    "alphabeta": AlphaBetaAgent,
    "paranoid": ParanoidAgent,
    "maxn": MaxNAgent,
    "brs": BestReplyAgent,
    "mcts": MctsAgent,
}
"""The agents that have a name; files are one more kind."""

FILES: dict[str, Callable[..., Agent]] = {".onnx": PolicyAgent, ".safetensors": NTupleAgent}
"""The agents that come from a file, by its ending: an exported policy, n-tuple tables (which may follow `ntuple:`)."""


def make_agent(description: str) -> Agent:
    """Build an agent from `name` or `name:option=value,option=value`.

    Args:
        description: A key of `AGENTS`, or the name of a released model (`8x8-2p`), or the path of an exported policy
            (`FILE.onnx`) or of n-tuple tables (`ntuple:FILE.safetensors`), or code of your own (`package.module:factory`: a
            class or function that makes an `Agent`, found as Python finds modules, and then in the current folder), with
            options or without.

    Raises:
        AgentError: for an unknown name or option, or a value of the wrong type; the sentence lists what is known. Also for
            code that can't be imported or makes no agent.
        ModelFileError: for a file that can't be used.
    """
    name, _, text = description.partition(":")
    if name in AGENTS:  # first, because the value of an option may be a policy's path
        return AGENTS[name](**_parse_options(AGENTS[name], name, text))
    released = released_files().get(name)
    if released:
        kind = FILES[released.suffix]
        return kind(name, **_parse_options(kind, name, text, given=("path",)))
    # The last ending that ends the text or a colon follows: a path may hold colons, and the ending more than once.
    file = re.fullmatch(rf"(?:ntuple:)?(.+({'|'.join(map(re.escape, FILES))}))(?::(.*))?", description)
    if not file:
        code = re.fullmatch(r"([^\W\d]\w*(?:\.\w+)*):([^\W\d]\w*)(?::(.*))?", description)
        if code:
            return _make_own(*code.groups(default=""))
        raise AgentError(
            f"there is no agent {name!r}; known are {', '.join(AGENTS)}, the released models {released_names()}, paths that "
            f"end in {' or '.join(FILES)}, and package.module:factory for code of your own"
        )
    path, ending, text = file.groups(default="")
    return FILES[ending](path, **_parse_options(FILES[ending], path, text, given=("path",)))


def _make_own(module: str, name: str, text: str) -> Agent:
    """Build an agent of the user's own code, whose name becomes the description."""
    where = f"{module}:{name}"
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last, so that nothing there hides a library
    try:
        factory = getattr(importlib.import_module(module), name)
    except Exception as error:  # the code of users raises what it likes
        raise AgentError(f"the agent {where} can't be imported ({type(error).__name__}: {error})") from error
    if not callable(factory):
        raise AgentError(f"{where} is of type {type(factory).__name__}; it must be a class or function that makes an Agent")
    try:
        agent = factory(**_parse_options(factory, where, text))
    except RolitError:
        raise
    except Exception as error:
        raise AgentError(f"{where} can't make an agent ({type(error).__name__}: {error})") from error
    if not isinstance(agent, Agent):
        raise AgentError(f"{where} made something of type {type(agent).__name__}; it must be a rolit_env.agents.Agent")
    agent.name = f"{where}:{text}" if text else where
    return agent


def _parse_options(factory: Callable[..., Agent], name: str, text: str, given: tuple[str, ...] = ()) -> dict[str, Any]:
    """Read `option=value,…` with the names and types of the factory's parameters."""
    parameters = {
        key: parameter
        for key, parameter in inspect.signature(factory, eval_str=True).parameters.items()
        if key not in given
        and parameter.kind is not inspect.Parameter.VAR_POSITIONAL
        and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }
    known = ", ".join(parameters) or "none"
    options: dict[str, Any] = {}
    for item in text.split(",") if text else ():
        key, equals, value = item.partition("=")
        if key not in parameters or not equals:
            raise AgentError(f"{name} has no option {item!r}; known are: {known} (written as option=value, commas between)")
        annotation = parameters[key].annotation
        if annotation is inspect.Parameter.empty:
            annotation = str
        wanted = next(iter(get_args(annotation)), annotation)  # of `int | None` the int: leaving an option out says None
        try:
            options[key] = wanted(value)
        except ValueError:
            raise AgentError(f"{name} can't take {key}={value!r}; it must be of type {wanted.__name__}") from None
    return options
