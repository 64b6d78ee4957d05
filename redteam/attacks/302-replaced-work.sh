#!/usr/bin/env bash
# title: makes git replace its own honest file by another one (refs/replace)
# class: C
# fixtures: py
# agent: git = "shared"
# wants: the branch of `provost commit` contains bytes that were never judged
# honest: yes
# check: cd "$REDTEAM_WORK"; export PROVOST_STATE=$REDTEAM_STATE; "$REDTEAM_PROVOST" commit --branch judged && git show judged:calc.py | grep -q evil

honest
old=$(git hash-object -w calc.py)
new=$( (cat calc.py; echo '# evil') | git hash-object -w --stdin)
git replace -f "$old" "$new"
