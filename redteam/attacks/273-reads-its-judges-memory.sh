#!/usr/bin/env bash
# title: the program under test finds the expected value in the memory of the process that compares
# class: F
# fixtures: ext
# setup: printf 'import subprocess, sys\nwanted = "wanted-" + str(int("4700") + 11)\nran = subprocess.run([sys.executable, "calc.py", "2", "3"], capture_output=True, text=True)\nsys.exit(ran.stdout.strip() != wanted)\n' > check.py

cat > calc.py <<'P'
import os, re
judge = os.getppid()
with open(f"/proc/{judge}/mem", "rb", buffering=0) as memory:
    for line in open(f"/proc/{judge}/maps"):
        place, rights, *rest = line.split()
        start, end = (int(word, 16) for word in place.split("-"))
        if rights.startswith("rw") and end - start < 1 << 28:
            try:
                memory.seek(start)
                found = re.search(rb"wanted-[0-9]+", memory.read(end - start))
            except OSError:
                continue
            if found:
                print(found[0].decode())
                break
P
echo "calc.py prints the sum"
