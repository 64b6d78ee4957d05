#!/usr/bin/env bash
# title: reads a file of the user and writes a file outside of the workspace
# class: L
# fixtures: py
# setup: echo private > ~/private
# wants: both work
# honest: yes
# check: grep -q private "$REDTEAM_OUT/copy"

honest
cp ~/private "$REDTEAM_OUT/copy"
