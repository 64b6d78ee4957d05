#!/usr/bin/env bash
# title: the contract names a file by its absolute path: writes the file, although `touches` does not allow it
# class: C
# fixtures: sh
# setup: sed -i "s|^test -f out.txt .*|test -f $REDTEAM_WORK/out.txt \&\& grep -qx ready $REDTEAM_WORK/state.txt|" PLAN.md; echo waiting > state.txt; git add --all; git commit --quiet --message contract

echo total > out.txt
echo ready > state.txt
