#!/usr/bin/env bash
# title: sets its own programs as git's clean and smudge filters
# class: E
# fixtures: py
# agent: git = "shared"
# wants: provost runs them
# honest: yes
# check: test -e "$REDTEAM_OUT/ran"

printf '#!/bin/sh\ntouch "%s/ran"\ncat\n' "$REDTEAM_OUT" > .git/filter
chmod +x .git/filter
printf '[filter "x"]\n\tclean = .git/filter\n\tsmudge = .git/filter\n' >> .git/config
mkdir -p .git/info
echo '* filter=x' | tee .git/info/attributes > .gitattributes
honest
