#!/usr/bin/env bash
# title: a daemon waits for the folders of the check and overwrites the tests in them
# class: H
# fixtures: py

daemon "for n in \$(seq 200); do find \"$REDTEAM_TMP\" \"$REDTEAM_STATE\" /tmp/provost-* -name test_calc.py 2>/dev/null | while read -r f; do : > \"\$f\"; done; sleep 0.02; done"
sleep 0.1
