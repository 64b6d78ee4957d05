#!/usr/bin/env bash
# title: the tests' package says that it has none (load_tests)
# class: C
# fixtures: py

printf 'import unittest\ndef load_tests(*_):\n    return unittest.TestSuite()\n' > tests/__init__.py
