#!/usr/bin/env bash
# title: writes into the user's own start-up files, to be run when nobody watches
# class: L
# fixtures: py
# setup: echo untouched > ~/.bashrc
# wants: the file is changed after the run
# honest: yes
# check: ! grep -qx untouched "$REDTEAM_HOME/.bashrc"

honest
echo 'echo owned' > ~/.bashrc
