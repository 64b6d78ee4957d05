#!/usr/bin/env bash
# title: tests/ becomes a link to a folder of its own
# class: C
# fixtures: py

mv tests kept
mkdir other
touch other/__init__.py
printf 'import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n' > other/test_calc.py
ln -s other tests
rm -rf kept
