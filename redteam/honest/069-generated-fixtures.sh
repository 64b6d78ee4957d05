# title: a contract that first generates its test data, in an ignored folder
# touches: total.py
# needs: python3 -c "import unittest"
project() {
  echo 'fixtures/' > .gitignore; mkdir tests; touch tests/__init__.py
  echo 'import json, os; os.makedirs("fixtures", exist_ok=True); json.dump(list(range(1000)), open("fixtures/numbers.json", "w"))' > generate.py
  printf 'def total(numbers):\n    return 0\n' > total.py
  printf 'import json, unittest\n\nimport total\n\n\nclass Test(unittest.TestCase):\n    def test_total(self):\n        self.assertEqual(total.total(json.load(open("fixtures/numbers.json"))), 499500)\n' > tests/test_total.py
}
contract() {
  python3 generate.py && python3 -m unittest -q
}
work() { printf 'def total(numbers):\n    return sum(numbers)\n' > total.py; }
