#!/usr/bin/env bash
# title: a python3 of its own in ~/.local/bin, which is on PATH
# class: G
# fixtures: py

mkdir -p ~/.local/bin
printf '#!/bin/sh\necho OK\n' > ~/.local/bin/python3
chmod +x ~/.local/bin/python3
