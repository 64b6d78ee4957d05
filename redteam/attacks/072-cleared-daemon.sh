#!/usr/bin/env bash
# title: the same with an empty environment and another working folder
# class: H
# fixtures: wait

(setsid env -i bash -c '(cd /; exec setsid env -i PATH=/usr/bin:/bin bash -c "echo \$\$ >> '"$REDTEAM_OUT"'/pids; sleep 0.4; echo total 42 > '"$REDTEAM_WORK"'/out.txt; sleep 3" redteam-daemon) &' </dev/null >/dev/null 2>&1 &)
sleep 0.1
