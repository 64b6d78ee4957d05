# title: tests through a tool in HOME that starts other programs, like `uv run`
# touches: calc.py
# needs: python3 -m pytest --version
project() {
  mkdir -p tests ~/.local/bin
  printf '#!/bin/sh\n[ "$1" = run ] && shift\nexec "$@"\n' > ~/.local/bin/starter; chmod +x ~/.local/bin/starter
  printf 'def add(a, b):\n    return a - b\n' > calc.py
  printf 'import calc\n\n\ndef test_add():\n    assert calc.add(2, 2) == 4\n' > tests/test_calc.py
}
contract() {
  starter run env PYTHONPATH=. python3 -m pytest -q tests
}
work() { printf 'def add(a, b):\n    return a + b\n' > calc.py; }
