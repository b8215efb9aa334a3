"""Commands side by side: how many run at once, their share of the cores, what is shown of them, and how they are stopped."""

import sys
import time

from training.side_by_side import run_side_by_side


def python(code):
    return [sys.executable, "-c", code]


def test_all_are_run_so_many_at_once_and_their_exit_codes_come_out(tmp_path):
    marks = f"import time, pathlib; p = pathlib.Path({str(tmp_path)!r}) / str(time.time_ns()); p.touch()"
    count = f"{marks}; time.sleep(.5); n = len(list(p.parent.iterdir())); p.unlink(); raise SystemExit(n)"
    ended = list(run_side_by_side({str(number): python(count) for number in range(5)}, at_once=2, threads=1))
    assert sorted(name for name, _ in ended) == list("01234")
    assert {code for _, code in ended} <= {1, 2}
    assert 2 in {code for _, code in ended}


def test_each_has_its_threads_and_is_shown_by_its_name(capsys):
    code = "import os, sys; print(os.environ['OMP_NUM_THREADS']); print('error', file=sys.stderr)"
    assert list(run_side_by_side({"one": python(code)}, at_once=2, threads=3)) == [("one", 0)]
    time.sleep(0.2)
    assert capsys.readouterr().err == "one: 3\none: error\n"


def test_when_stopped_those_that_run_are_interrupted_once_and_no_other_starts(tmp_path):
    ready = tmp_path / "ready"
    code = f"""
import pathlib, signal, time
caught = []
signal.signal(signal.SIGINT, lambda *_: caught.append(1))
pathlib.Path({str(ready)!r}).touch()
until = time.monotonic() + 20
while not caught and time.monotonic() < until: time.sleep(.05)
time.sleep(.5)
raise SystemExit(10 + len(caught))
"""
    commands = {"first": python(code), "never": python(f"open({str(tmp_path / 'never')!r}, 'w')")}
    assert list(run_side_by_side(commands, at_once=1, threads=1, should_stop=ready.exists)) == [("first", 11)]
    assert not (tmp_path / "never").exists()


def test_none_runs_on_when_nobody_waits_any_more(tmp_path):
    mark = tmp_path / "mark"
    late = python(f"import time; time.sleep(3); open({str(mark)!r}, 'w')")
    running = run_side_by_side({"quick": python(""), "late": late}, at_once=2, threads=1)
    assert next(running) == ("quick", 0)
    running.close()
    time.sleep(3.5)
    assert not mark.exists()
