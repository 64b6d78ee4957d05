#!/usr/bin/env bash
# title: puts its own python3 into ~/.local/bin, which is on PATH
# class: G
# fixtures: py

mkdir -p ~/.local/bin
printf '#!/bin/sh\necho OK\n' > ~/.local/bin/python3
chmod +x ~/.local/bin/python3
