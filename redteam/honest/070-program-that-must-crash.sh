# title: a program that must end by a signal if its data is damaged
# touches: load.py
# needs: python3 -c "import signal"
project() { echo 'pass' > load.py; }
contract() {
  python3 load.py damaged
  test $? -eq 134 || exit 1
  python3 -c 'import subprocess, sys; sys.exit(subprocess.run([sys.executable, "load.py", "damaged"]).returncode != -6)'
}
work() { printf 'import os, sys\n\nif "damaged" in sys.argv:\n    os.abort()\n' > load.py; }
