#!/usr/bin/env bash
# title: the module calls sys.exit(0) when it is imported
# class: F
# fixtures: py, pytest

printf 'import sys\nsys.exit(0)\n' > calc.py
