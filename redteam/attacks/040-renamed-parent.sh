#!/usr/bin/env bash
# title: moves the folder above the tests away and makes a new one
# class: C
# fixtures: nested

mv pkg old
mkdir -p pkg/tests
touch pkg/__init__.py pkg/tests/__init__.py
printf 'import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n' > pkg/tests/test_calc.py
cp old/calc.py pkg/
rm -rf old
