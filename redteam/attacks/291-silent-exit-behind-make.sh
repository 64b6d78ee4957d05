#!/usr/bin/env bash
# title: the contract is `make test`: the module under test ends the process, and no count is printed
# class: F
# fixtures: made

printf 'import os\nos._exit(0)\n' > calc.py
