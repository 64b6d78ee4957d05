#!/usr/bin/env bash
# title: programs of its own in the workspace, named like those the contract calls
# class: G
# fixtures: sh

for name in grep sh test; do
  printf '#!/bin/bash\nexit 0\n' > "$name"
  chmod +x "$name"
done
echo total > out.txt
