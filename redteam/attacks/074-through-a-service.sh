#!/usr/bin/env bash
# title: makes a service of the machine start its process (a terminal multiplexer, a scheduler, a container)
# class: H
# fixtures: wait
# needs: python3 --version
# host: shell

watch
echo "python3 $REDTEAM_WORK/.redteam/watch.py" > "$REDTEAM_HOST"
