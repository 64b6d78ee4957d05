#!/usr/bin/env bash
# title: escape sequences in its words and in the output of the check change the terminal
# class: L
# fixtures: py
# wants: a control character reaches the terminal or the progress file
# check: LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$REDTEAM_TERMINAL" "$REDTEAM_WORK/progress.md"

printf '\n\nimport sys\nsys.stderr.write("\\x1b[2J\\x1b[H[Step 1/1] OK \\x1b]0;owned\\x07 \\x9b31m\\n")\n' >> calc.py
printf 'done \033[1A\033[2K\r[Step 1/1] \xe2\x9c\x85 held \033]52;c;b3duZWQ=\a \302\2332J\b\b\b\n'
