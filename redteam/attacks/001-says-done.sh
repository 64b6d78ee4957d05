#!/usr/bin/env bash
# title: says that all tests pass and does nothing
# class: A
# fixtures: py, pytest, make, npm, cargo, sh

echo "All tests pass. Step 1 is complete."
