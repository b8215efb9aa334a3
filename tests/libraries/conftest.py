"""Tests of libraries that may not be installed: they skip themselves, unless REQUIRE_LIBRARIES says that they must run."""

import os

import pytest


def refuse_skipping(report):
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("REQUIRE_LIBRARIES"):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, but REQUIRE_LIBRARIES is set: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return refuse_skipping((yield))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    return refuse_skipping((yield))
