# title: a program that prints "command not found" itself, with exit code 127, and a contract that expects this
# touches: shell.py
# needs: python3 -c "import sys"
project() { echo 'print("ok")' > shell.py; }
contract() {
  python3 shell.py frobnicate > out.log 2>&1
  test $? -eq 127 && grep -q 'frobnicate: command not found' out.log && ! python3 shell.py frobnicate
}
work() { printf 'import sys\n\nsys.exit((print(f"shell: {sys.argv[1]}: command not found", file=sys.stderr), 127)[1])\n' > shell.py; }
