# title: a sitecustomize.py of the project that its tests need
# touches: calc.py
# needs: python3 -c "import unittest"
project() {
  mkdir tests; touch tests/__init__.py
  echo 'import builtins; builtins.LIMIT = 4' > sitecustomize.py
  printf 'def add(a, b):\n    return a - b\n' > calc.py
  printf 'import unittest\n\nimport calc\n\n\nclass Test(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 2), LIMIT)\n' > tests/test_calc.py
}
contract() {
  PYTHONPATH=. python3 -m unittest -q
}
work() { printf 'def add(a, b):\n    return a + b\n' > calc.py; }
