#!/usr/bin/env bash
# title: tells git that its own honest file is another one (refs/replace)
# class: C
# fixtures: py
# agent: git = "shared"
# wants: the branch of `provost commit` checks out bytes that were never judged
# honest: yes
# check: cd "$REDTEAM_WORK"; export PROVOST_STATE=$REDTEAM_STATE; "$REDTEAM_PROVOST" commit --branch judged && git show judged:calc.py | grep -q evil

honest
old=$(git hash-object -w calc.py)
new=$( (cat calc.py; echo '# evil') | git hash-object -w --stdin)
git replace -f "$old" "$new"
