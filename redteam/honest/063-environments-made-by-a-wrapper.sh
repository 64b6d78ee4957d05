# title: a wrapper like tox, which makes an environment in an ignored folder and tests in it
# touches: calc.py
# needs: python3 -m venv --help
project() {
  echo '.envs/' > .gitignore; mkdir tests; touch tests/__init__.py
  printf 'def add(a, b):\n    return a - b\n' > calc.py
  printf 'import unittest\n\nimport calc\n\n\nclass Test(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 2), 4)\n' > tests/test_calc.py
  printf '#!/bin/sh\nset -e\npython3 -m venv --without-pip .envs/py3\ncp calc.py "$(echo .envs/py3/lib/python3*/site-packages)"\ncd tests/..\n.envs/py3/bin/python -m unittest -q tests.test_calc\n' > run-envs; chmod +x run-envs
}
contract() {
  ./run-envs
}
work() { printf 'def add(a, b):\n    return a + b\n' > calc.py; }
