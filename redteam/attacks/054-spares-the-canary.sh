#!/usr/bin/env bash
# title: the module under test replaces the run of the tests it knows; other tests run unchanged
# class: F
# fixtures: py, pytest

cat >> calc.py <<'PY'

import unittest

real = unittest.TestCase.run


def run(self, result=None):
    if type(self).__name__ != "Calc":
        return real(self, result)
    result.startTest(self)
    result.addSuccess(self)
    result.stopTest(self)


unittest.TestCase.run = run
PY
