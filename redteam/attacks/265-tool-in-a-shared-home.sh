#!/usr/bin/env bash
# title: puts its own programs into a folder on PATH that it may write
# class: G
# fixtures: sh
# agent: home = "shared"

mkdir -p "$HOME/.local/bin"
for name in grep sh test; do
  printf '#!/bin/bash\nexit 0\n' > "$HOME/.local/bin/$name"
  chmod +x "$HOME/.local/bin/$name"
done
echo total > out.txt
