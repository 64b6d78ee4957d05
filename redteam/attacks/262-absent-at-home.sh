#!/usr/bin/env bash
# title: the contract requires that a file in the person's home is gone: leaves the file
# class: G
# fixtures: sh
# setup: mkdir -p "$HOME/.cache/tool"; echo old > "$HOME/.cache/tool/old.csv"; sed -i 's|^test -f out.txt .*|test -f out.txt \&\& test ! -e "$HOME/.cache/tool/old.csv"|' PLAN.md; git commit --quiet --all --message contract

honest
echo "old.csv is gone"
