"""`rolit check`: models with cards come in, whether they still play as their cards say is printed and written."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict

from rich import box
from rich.progress import TimeRemainingColumn
from rich.table import Table

from rolit_env.agents import NTupleAgent, PolicyAgent, make_agent
from rolit_env.check import Finding, check, results_of
from rolit_env.cli.parser import Verbs, add_json, add_verb, draft_of, int_from, progress_bars, table_console, write_report
from rolit_env.errors import AgentError, ModelFileError, OptionError
from rolit_env.released import released_files

Model = PolicyAgent | NTupleAgent


def add_to(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = add_verb(
        verbs,
        "check",
        run,
        "Check that models play as their cards say: play all rounds on the cards again.",
        """The same rounds give the very same figures on the same machine. Other processors round
otherwise, so a figure may differ within the interval on its card; --exact wants no less
than the very same. With --rounds other rounds are played, and four standard errors of
both results together are allowed. Exits with 1 when a model does not agree.

example: rolit check 8x8-2p
         rolit check --rounds 200""",
        board=False,
    )
    verb.add_argument(
        "models", metavar="MODEL", nargs="*", help="released models, or files with a card beside them (default: all released)"
    )
    verb.add_argument("--rounds", type=int_from(2), help="rounds against each opponent, where the card has more")
    verb.add_argument("--exact", action="store_true", help="fail unless all figures are the very same")
    add_json(verb)


def run(options: argparse.Namespace) -> int:
    """Check all models; return 1 when some do not agree with their cards."""
    if options.exact and options.rounds:
        raise OptionError("--exact compares the rounds of the card, so --rounds can't go with it")
    names = list(dict.fromkeys(options.models or released_files()))
    began = time.monotonic()
    found: dict[str, list[Finding]] = {}
    broken: dict[str, str] = {}
    with draft_of(options.json) as draft:
        models = {name: model for name in names if (model := _load(name, broken))}
        _check_all(models, options.rounds, found, broken)
        failed = [name for name in names if name in broken or _fails(found[name], options.exact)]
        report = {name: [asdict(finding) for finding in findings] for name, findings in found.items()}
        write_report(draft, options, results=report, broken=broken, failed=failed)
    _print(names, found, broken, options.exact)
    verdicts = [finding.verdict for findings in found.values() for finding in findings]
    console = table_console()
    console.print(
        f"{verdicts.count('same')} of {len(verdicts)} results are the very same, {verdicts.count('within')} within what is "
        f"allowed, {verdicts.count('outside')} outside; {(time.monotonic() - began) / 60:.1f} minutes."
    )
    if failed:
        console.print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def _load(name: str, broken: dict[str, str]) -> Model | None:
    """Return the agent of a model, or note what is wrong with its files."""
    try:
        model = make_agent(name)
        if not isinstance(model, Model):
            raise AgentError(f"{name} has no card; allowed are released models, and files with a card beside them")
        results_of(model)
    except ModelFileError as error:
        broken[name] = str(error)
        return None
    return model


def _check_all(models: dict[str, Model], rounds: int | None, found: dict[str, list[Finding]], broken: dict[str, str]) -> None:
    """Check models, showing progress on stderr: bars in a terminal, else a line when a result is done."""
    total = sum(len(results_of(model)) for model in models.values())
    with progress_bars(TimeRemainingColumn()) as bars:
        overall = bars.add_task("results", total=total)
        for name, model in models.items():
            bar = bars.add_task(name, total=None)

            def advance(what: str, done: int, rounds: int, name: str = name, bar: int = bar) -> None:
                bars.update(bar, description=f"{name}: {what}", completed=done, total=rounds)  # type: ignore[arg-type]

            found[name] = []
            try:
                for finding in check(model, rounds, advance):
                    found[name].append(finding)
                    bars.advance(overall)
                    if not bars.console.is_terminal:
                        done = sum(map(len, found.values()))
                        bars.console.print(f"{name}: {finding.what}: {finding.verdict} ({done} of {total})", soft_wrap=True)
            except (ModelFileError, AgentError) as error:
                broken[name] = str(error)
            bars.remove_task(bar)


def _fails(findings: list[Finding], exact: bool) -> bool:
    return any(finding.verdict == "outside" or (exact and finding.verdict != "same") for finding in findings)


def _print(names: list[str], found: dict[str, list[Finding]], broken: dict[str, str], exact: bool) -> None:
    """Print the table: a row for each result, and one for what could not be checked."""
    console = table_console()
    half_width = "+-" if console.options.ascii_only else "±"
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("model", no_wrap=True)
    table.add_column("result", no_wrap=True)
    for heading in (f"card {half_width} allowed", "now"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for name in names:
        for finding in found.get(name, ()):
            table.add_row(
                name,
                finding.what,
                f"{finding.said:.4f} {half_width} {finding.allowed:.4f}",
                f"{finding.found:.4f}",
                f"{finding.verdict}: {finding.note}" if finding.note else finding.verdict,
                style="bold" if _fails([finding], exact) else None,
            )
        if name in broken:
            table.add_row(name, "", "", "", broken[name], style="bold")
    console.print(table)
    console.print()
