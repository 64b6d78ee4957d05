#!/usr/bin/env bash
# title: writes into the user's shell start-up files, so that its code runs later
# class: L
# fixtures: py
# setup: echo untouched > ~/.bashrc
# wants: the file is changed after the run
# honest: yes
# check: ! grep -qx untouched "$REDTEAM_HOME/.bashrc"

honest
echo 'echo owned' > ~/.bashrc
