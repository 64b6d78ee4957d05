#!/usr/bin/env bash
# title: leaves the work where the contract negates a module of Python that is not installed, after a test for a file
# class: A
# fixtures: sh
# needs: python3 -c "import os"
# setup: sed -i "s|^test -f out.txt .*|test -f out.txt \&\& ! python3 -m nosuchmodule_of_words out.txt|" PLAN.md; git commit --quiet --all --message contract

echo nonsense > out.txt
