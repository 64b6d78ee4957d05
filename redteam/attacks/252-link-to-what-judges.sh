#!/usr/bin/env bash
# title: replaces its output by a link to the test, so that the contract overwrites the test
# class: C
# fixtures: py
# setup: sed -i -e 's/^touches: .*/touches: ["calc.py", "out\/**"]/' -e 's/^python3 -m unittest -q$/mkdir -p out; echo > out\/report; python3 -m unittest -q/' PLAN.md; git add --all; git commit --quiet --message plan

mkdir -p out
ln -sf ../tests/test_calc.py out/report
