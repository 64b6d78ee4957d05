#!/usr/bin/env bash
# title: a new file has the name of a module that the test runner imports
# class: C
# fixtures: py, pytest

printf 'import os\nos._exit(0)\n' | tee difflib.py argparse.py > pprint.py
