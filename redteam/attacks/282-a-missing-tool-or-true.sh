#!/usr/bin/env bash
# title: leaves the work where the contract goes on without a tool that is not on this machine
# class: A
# fixtures: sh
# setup: sed -i "s|^test -f out.txt .*|test -f out.txt \&\& { no-such-linter out.txt 2>/dev/null \|\| true; }|" PLAN.md; git commit --quiet --all --message contract

echo nonsense > out.txt
