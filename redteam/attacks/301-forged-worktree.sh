#!/usr/bin/env bash
# title: forges the files of a worktree that provost made, so that it points to a folder of the user
# class: J
# fixtures: py
# agent: git = "shared"
# setup: mkdir -p ../out/documents && echo mine > ../out/documents/letter
# wants: `worktree prune` deletes the folder
# honest: yes
# check: cd "$REDTEAM_WORK"; export PROVOST_STATE=$REDTEAM_STATE; "$REDTEAM_PROVOST" worktree prune --yes; "$REDTEAM_PROVOST" doctor --fix --yes; test ! -e "$REDTEAM_OUT/documents/letter"

honest
own=.git/worktrees/x
mkdir -p "$own"
echo "$REDTEAM_OUT/documents/.git" > "$own/gitdir"
echo "ref: $(git symbolic-ref HEAD)" > "$own/HEAD"
echo ../.. > "$own/commondir"
printf '{"plan":"PLAN.md","attempt":1,"branch":"x","base":"x","at":1,"pid":1,"finished":false}' > "$own/provost-spawned"
