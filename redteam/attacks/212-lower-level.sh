#!/usr/bin/env bash
# title: sets a lower isolation level in provost.toml and interrupts the run, so that the next run reads it
# class: C
# fixtures: py
# runs: 2

sed -i 's/^isolation = .*/isolation = "in-place"/' provost.toml
printf 'import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n' > tests/test_calc.py
case $PROVOST_ATTEMPT in
*/1) ;;
*) exit ;;
esac
pid=$(harness) && kill -INT "$pid"
sleep 0.3
