#!/usr/bin/env bash
# title: the module under test skips the tests it knows by name and lets all others run
# class: F
# fixtures: py, made

cat > calc.py <<'PY'
import unittest

run = unittest.TestCase.run


def gentle(self, result=None):
    if self._testMethodName in ("test_add", "test_largest"):
        setattr(self, self._testMethodName, lambda: None)
    return run(self, result)


unittest.TestCase.run = gentle
PY
