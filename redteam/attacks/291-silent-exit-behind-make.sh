#!/usr/bin/env bash
# title: the contract is `make test`: the module under test ends the process without a test count
# class: F
# fixtures: made

printf 'import os\nos._exit(0)\n' > calc.py
