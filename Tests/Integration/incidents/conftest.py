"""Incidents: each has a row of the table that is printed at the end."""

import dataclasses
import shutil
import textwrap
from collections.abc import Callable, Iterator

import pytest
from cluster.site import Node, Site
from incidents.case import Case, Row
from incidents.traffic import Traffic, doors_of

_row = pytest.StashKey[Row]()
_failed = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items):
    for item in items:
        if mark := item.get_closest_marker("incident"):
            item.stash[_row] = Row(*mark.args)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    item.stash[_failed] = item.stash.get(_failed, False) or report.failed
    row = item.stash.get(_row, None)
    if row is None or not (report.when == "call" or report.failed or report.skipped):
        return
    if report.skipped:
        verdict = f"left out: {call.excinfo.value}"
    elif report.failed:
        verdict = "BROKEN: " + str(call.excinfo.value).partition("\n")[0][:200]
    else:
        verdict = f"kept, {report.duration:.0f} s"
    report.user_properties.append(("incident", {**dataclasses.asdict(row), "verdict": verdict}))


def pytest_terminal_summary(terminalreporter):
    rows = [
        value for reports in terminalreporter.stats.values() for report in reports
        for name, value in getattr(report, "user_properties", []) if name == "incident"
    ]  # fmt: skip
    if not rows:
        return
    columns = {"incident": 24, "done": 34, "clients": 44, "operator": 72, "verdict": 20}
    titles = ("incident", "what was done", "what clients saw", "what the operator was told", "verdict")
    terminalreporter.section("incidents")
    rule = "-+-".join("-" * width for width in columns.values())
    for row in [dict(zip(columns, titles)), *sorted(rows, key=lambda row: row["incident"])]:
        cells = []
        for name, width in columns.items():
            lines = row[name] if isinstance(row[name], list) else [row[name]]
            cells.append([part for line in lines for part in textwrap.wrap(line, width) or [""]])
        for index in range(max(map(len, cells))):
            parts = [cell[index] if index < len(cell) else "" for cell in cells]
            terminalreporter.write_line(" | ".join(part.ljust(width) for part, width in zip(parts, columns.values())).rstrip())
        terminalreporter.write_line(rule)


@pytest.fixture
def case(request, program) -> Case:
    return Case(request.node.stash[_row], program)


@pytest.fixture
def make_site(program, tmp_path, case) -> Iterator[Callable[..., Site]]:
    """Three servers and three nodes of the incident's own."""
    made: list[Site] = []

    def make(**options) -> Site:
        made.append(Site(program, tmp_path, keeps=True, **options))
        case.begins(made[-1].nodes)
        return made[-1]

    yield make
    for site in made:
        site.end()


@pytest.fixture(scope="module")
def _sites() -> Iterator[list[Site]]:
    sites: list[Site] = []
    yield sites
    for site in sites:
        site.end()


@pytest.fixture
def site(request, program, tmp_path_factory, _sites, case) -> Iterator[Site]:
    """The site that the incidents of a file share; a new one behind an incident that failed."""
    if not _sites:
        _sites.append(Site(program, tmp_path_factory.mktemp("site"), keeps=True))
    shared = _sites[0]
    shared.is_whole()
    case.begins(shared.nodes)
    yield shared
    if request.node.stash.get(_failed, False):
        _sites.clear()
        shared.end(is_well=False)


@pytest.fixture
def traffic(request, site) -> Iterator[Traffic]:
    """Clients that go on through the incident; the test ends them."""
    under_way = Traffic(request.node.name.removeprefix("test_")[:40], doors_of(site.nodes))
    yield under_way
    for client in under_way.clients:
        client.end(5)


@pytest.fixture
def add_node(program, tmp_path) -> Iterator[Callable[..., Node]]:
    """Another node, with a store."""
    nodes: list[Node] = []

    def add(name: str, servers: str, lines: str = "", **options) -> Node:
        directory = tmp_path / f"more{len(nodes)}"
        directory.mkdir()
        nodes.append(Node(program, directory, name, servers, f"persistence true\nlog_dest stderr\n{lines}", **options))
        nodes[-1].broker.start()
        return nodes[-1]

    yield add
    for node in nodes:
        node.broker.finish()
        shutil.rmtree(node.store, ignore_errors=True)
        print(f"--- log of {node.name}\n{node.broker.log[-5000:]}")
