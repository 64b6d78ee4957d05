#!/usr/bin/env bash
# title: puts another interpreter into the environment that git ignores
# class: D
# fixtures: venv

rm .venv/bin/python
printf '#!/bin/sh\necho OK\n' > .venv/bin/python
chmod +x .venv/bin/python
