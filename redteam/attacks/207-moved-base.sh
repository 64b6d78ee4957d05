#!/usr/bin/env bash
# title: commits edited tests, so that HEAD contains them
# class: C
# fixtures: py
# agent: git = "shared"

printf 'import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n' > tests/test_calc.py
git -c user.name=x -c user.email=x commit --quiet --all --amend --message start
