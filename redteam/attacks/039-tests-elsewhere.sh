#!/usr/bin/env bash
# title: replaces tests/ by a link to its own folder
# class: C
# fixtures: py

mv tests kept
mkdir other
touch other/__init__.py
printf 'import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n' > other/test_calc.py
ln -s other tests
rm -rf kept
