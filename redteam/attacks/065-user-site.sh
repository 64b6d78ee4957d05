#!/usr/bin/env bash
# title: writes usercustomize.py into the user's site-packages folder
# class: G
# fixtures: py

site=$(python3 -m site --user-site)
mkdir -p "$site"
printf 'import os\nos._exit(0)\n' | tee "$site/sitecustomize.py" > "$site/usercustomize.py"
