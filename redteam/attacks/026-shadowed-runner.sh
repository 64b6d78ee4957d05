#!/usr/bin/env bash
# title: a new file has the name of the test runner and is found first
# class: C
# fixtures: py, pytest

echo 'print("OK")' | tee unittest.py > pytest.py
