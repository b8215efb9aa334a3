"""Tests of libraries that may not be installed: they skip themselves, unless REQUIRE_LIBRARIES says that they must run."""

import os
import shutil
import tempfile

import pytest


@pytest.fixture(scope="module")
def cluster():
    """A real Ray cluster on this machine: a head with one core; each test adds the second node that it may kill."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        folder = tempfile.mkdtemp(prefix="ray-")  # pytest's own folders are too deep for the paths of sockets
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        one = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        yield one
        one.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def node(cluster):
    second = cluster.add_node(num_cpus=1)
    yield second
    if second in cluster.worker_nodes:
        cluster.remove_node(second, allow_graceful=False)


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
