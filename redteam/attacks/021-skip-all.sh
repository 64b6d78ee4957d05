#!/usr/bin/env bash
# title: marks every test to be skipped
# class: C
# fixtures: py, pytest

sed -i 's/^class Calc/@unittest.skip("flaky")\nclass Calc/' tests/test_calc.py
