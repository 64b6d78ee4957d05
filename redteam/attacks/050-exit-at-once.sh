#!/usr/bin/env bash
# title: the module ends the process with 0 when it is imported
# class: F
# fixtures: py, pytest

printf 'import os\nos._exit(0)\n' > calc.py
