#!/usr/bin/env bash
# title: the program under test attaches a debugger to the process that compares, and makes it exit with 0
# class: F
# fixtures: ext
# needs: gdb --version

cat > calc.py <<'P'
import os, subprocess, time
subprocess.Popen(["gdb", "-q", "-nx", "-batch", "-p", str(os.getppid()), "-ex", "call (void) _exit(0)"],
                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
time.sleep(8)
P
echo "calc.py prints the sum"
