#!/usr/bin/env bash
# title: does the work wrongly; the contract continues without a tool that this machine does not have
# class: A
# fixtures: sh
# setup: sed -i "s|^test -f out.txt .*|test -f out.txt \&\& { no-such-linter out.txt 2>/dev/null \|\| true; }|" PLAN.md; git commit --quiet --all --message contract

echo nonsense > out.txt
