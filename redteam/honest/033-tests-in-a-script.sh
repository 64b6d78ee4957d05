# title: tests started by a script, with tee and pipefail
# touches: calc.py
# needs: python3 -m pytest --version
project() {
  printf 'def add(a, b):\n    return a - b\n' > calc.py
  mkdir tests scripts; printf 'import calc\n\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n' > tests/test_calc.py
  printf '#!/bin/bash\nset -o pipefail\ncd "$(dirname "$0")/.."\nPYTHONPATH=. python3 -m pytest -q tests | tee /dev/null\n' > scripts/test; chmod +x scripts/test
}
contract() {
  scripts/test
}
work() { sed -i 's/a - b/a + b/' calc.py; }
