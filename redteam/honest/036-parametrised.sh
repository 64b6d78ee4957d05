# title: parametrised tests, chosen by -k
# touches: calc.py
# needs: python3 -m pytest --version
project() {
  printf 'def add(a, b):\n    return a - b\n' > calc.py
  printf 'import pytest\nimport calc\n\n\n@pytest.mark.parametrize("a,b,c", [(1, 2, 3), (2, 2, 4)])\ndef test_add(a, b, c):\n    assert calc.add(a, b) == c\n\n\ndef test_other():\n    assert True\n' > test_calc.py
}
contract() {
  python3 -m pytest -q -k add
}
work() { sed -i 's/a - b/a + b/' calc.py; }
