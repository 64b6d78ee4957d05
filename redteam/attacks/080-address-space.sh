#!/usr/bin/env bash
# title: reserves eight gigabytes of memory
# class: H
# fixtures: py
# wants: it gets them
# honest: yes
# check: test -e "$REDTEAM_WORK/got"

honest
python3 -c 'import mmap; mmap.mmap(-1, 8 << 30)' && touch "$REDTEAM_WORK/got"
