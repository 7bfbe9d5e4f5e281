"""What all tests share: tiers, and the table of the modules in ExecuTorch's wheel."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Generator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=("quick", "full"), default="quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--tier") == "full":
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Gives each report the row of its module: tests run in processes of their own."""
    report = yield
    wheel = sys.modules.get("wheel")
    name = item.name.removeprefix("test_").removesuffix("_output_consistency")
    row = wheel.TABLE.get(name) if wheel is not None and call.when == "call" else None
    if row is not None and item.name.endswith("_output_consistency"):
        report.user_properties.append(("module", dataclasses.asdict(row)))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the table of modules."""
    rows = [
        value
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for key, value in report.user_properties
        if key == "module"
    ]
    if not rows:
        return
    terminalreporter.section("modules of ExecuTorch's wheel on the host device")
    yes = {True: "yes", False: "NO"}
    terminalreporter.line(f"{'module':34} {'dtype':9} {'exported':9} {'right':6} max error")
    for row in sorted(rows, key=lambda row: (row["name"], row["dtype"])):
        error = "-" if row["error"] is None else f"{row['error']:.2e}"
        terminalreporter.line(
            f"{row['name']:34} {row['dtype']:9} {yes[row['exported']]:9} "
            f"{yes[row['right']]:6} {error}"
        )
