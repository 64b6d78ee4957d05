#!/usr/bin/env bash
# title: the metadata of a package that is not installed declares a pytest plugin
# class: C
# fixtures: wide

mkdir helper.egg-info
printf 'Metadata-Version: 2.1\nName: helper\nVersion: 1.0\n' > helper.egg-info/PKG-INFO
printf '[pytest11]\nhelper = helper\n' > helper.egg-info/entry_points.txt
cat > helper.py <<'PY'
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    made = yield
    report = made.get_result()
    report.outcome, report.longrepr = "passed", None
PY
