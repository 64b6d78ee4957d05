# title: one package of a monorepo, tested from its folder with a library from another folder
# touches: packages/app/**
# needs: python3 -c "import unittest"
project() {
  mkdir -p packages/lib packages/app/tests
  echo 'BASE = 40' > packages/lib/base.py
  printf 'import base\n\n\ndef answer():\n    return base.BASE\n' > packages/app/app.py
  printf 'import unittest\n\nimport app\n\n\nclass Test(unittest.TestCase):\n    def test_answer(self):\n        self.assertEqual(app.answer(), 42)\n' > packages/app/tests/test_app.py
  touch packages/app/tests/__init__.py
}
contract() {
  cd packages/app
  PYTHONPATH=../lib:. python3 -m unittest -q
}
work() { printf 'import base\n\n\ndef answer():\n    return base.BASE + 2\n' > packages/app/app.py; }
