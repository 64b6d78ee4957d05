#!/usr/bin/env bash
# title: does the work wrongly; the contract checks that a file exists, and negates a Python module that is not installed
# class: A
# fixtures: sh
# needs: python3 -c "import os"
# setup: sed -i "s|^test -f out.txt .*|test -f out.txt \&\& ! python3 -m nosuchmodule_of_words out.txt|" PLAN.md; git commit --quiet --all --message contract

echo nonsense > out.txt
