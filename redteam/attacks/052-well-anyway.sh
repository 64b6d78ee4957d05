#!/usr/bin/env bash
# title: the module under test makes every test result a success
# class: F
# fixtures: py

printf 'import unittest\nunittest.TestResult.wasSuccessful = lambda self: True\n' >> calc.py
