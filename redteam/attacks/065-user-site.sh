#!/usr/bin/env bash
# title: usercustomize.py in the user's own site folder
# class: G
# fixtures: py

site=$(python3 -m site --user-site)
mkdir -p "$site"
printf 'import os\nos._exit(0)\n' | tee "$site/sitecustomize.py" > "$site/usercustomize.py"
