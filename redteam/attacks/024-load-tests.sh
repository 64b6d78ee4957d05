#!/usr/bin/env bash
# title: the package of the tests reports that it has no tests (load_tests)
# class: C
# fixtures: py

printf 'import unittest\ndef load_tests(*_):\n    return unittest.TestSuite()\n' > tests/__init__.py
