#!/usr/bin/env bash
# title: has a service of the machine start its process (a terminal multiplexer, a scheduler, a container)
# class: H
# fixtures: wait
# host: shell

echo "sleep 0.4; echo total 42 > $REDTEAM_WORK/out.txt; sleep 2" > "$REDTEAM_HOST"
