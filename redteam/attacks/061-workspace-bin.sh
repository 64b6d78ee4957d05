#!/usr/bin/env bash
# title: puts programs into the workspace that have the names of those the contract calls
# class: G
# fixtures: sh

for name in grep sh test; do
  printf '#!/bin/bash\nexit 0\n' > "$name"
  chmod +x "$name"
done
echo total > out.txt
