# title: tests started by make
# touches: calc.py
# needs: make --version
project() {
  printf 'def add(a, b):\n    return a - b\n' > calc.py
  printf 'import unittest\nimport calc\n\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(1, 2), 3)\n' > test_calc.py
  printf 'test:\n\tpython3 -m unittest -q\n' > Makefile
}
contract() {
  make -s test
}
work() { sed -i 's/a - b/a + b/' calc.py; }
