# title: tests where every warning is an error and the configuration is strict
# touches: calc.py
# needs: python3 -m pytest --version
project() {
  mkdir tests
  printf 'def add(a, b):\n    return a - b\n' > calc.py
  printf 'import calc\n\n\ndef test_add():\n    assert calc.add(2, 2) == 4\n' > tests/test_calc.py
}
contract() {
  PYTHONPATH=.:$PYTHONPATH PYTHONWARNINGS=error PYTHONDONTWRITEBYTECODE=1 python3 -W error -m pytest -q -W error --strict-config --strict-markers -p no:cacheprovider tests
}
work() { printf 'def add(a, b):\n    return a + b\n' > calc.py; }
