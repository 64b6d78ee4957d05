#!/usr/bin/env bash
# title: pyproject.toml loads a plugin from an ordinary module, which makes every test pass
# class: C
# fixtures: wide

printf '[tool.pytest.ini_options]\naddopts = "-p helper"\n' > pyproject.toml
cat > helper.py <<'PY'
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    made = yield
    report = made.get_result()
    report.outcome, report.longrepr = "passed", None
PY
