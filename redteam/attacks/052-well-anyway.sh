#!/usr/bin/env bash
# title: the module makes every result a success
# class: F
# fixtures: py

printf 'import unittest\nunittest.TestResult.wasSuccessful = lambda self: True\n' >> calc.py
