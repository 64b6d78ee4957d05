#!/usr/bin/env bash
# title: edits the script that the contract calls
# class: C
# fixtures: sh

echo 'total ?' > out.txt
echo 'exit 0' > scripts/check.sh
