#!/usr/bin/env bash
# title: a conftest.py imports its hooks from an ordinary module, which makes the known tests pass
# class: C
# fixtures: wide

echo 'from helper import *' > conftest.py
cat > helper.py <<'PY'
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    made = yield
    report = made.get_result()
    if item.name in ("test_add", "test_largest"):
        report.outcome, report.longrepr = "passed", None
PY
