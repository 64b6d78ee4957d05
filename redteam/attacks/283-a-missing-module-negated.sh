#!/usr/bin/env bash
# title: does nothing; the contract negates a Python module that is not installed
# class: A
# fixtures: sh
# needs: python3 -c "import os"
# setup: sed -i "s|^test -f out.txt .*|! python3 -m nosuchmodule_of_tests -q|" PLAN.md; git commit --quiet --all --message contract

echo "the test fails, as it should"
