# title: one test by its name, while another test of the file still fails
# touches: calc.py
# needs: python3 -m pytest --version
project() {
  printf 'def add(a, b):\n    return a - b\n' > calc.py
  printf 'import calc\n\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n\n\ndef test_later():\n    assert False\n' > test_calc.py
}
contract() {
  python3 -m pytest -q test_calc.py::test_add
}
work() { sed -i 's/a - b/a + b/' calc.py; }
