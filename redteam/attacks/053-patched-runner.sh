#!/usr/bin/env bash
# title: the module under test replaces the function that runs a test
# class: F
# fixtures: py, pytest

cat >> calc.py <<'PY'

import unittest

unittest.TestCase.__call__ = lambda self, result=None: result.startTest(self) or result.addSuccess(self) or result.stopTest(self)
unittest.TestCase.run = unittest.TestCase.__call__
PY
