# title: several projects tested in a loop of subshells, with skipped and expected failures among them
# touches: a/**, b/**
# needs: python3 -c "import unittest"
project() {
  for each in a b; do
    mkdir $each; printf 'N = 1\n' > $each/n.py
    printf 'import unittest\n\nimport n\n\n\nclass Test(unittest.TestCase):\n    def test_n(self):\n        for each in range(3):\n            with self.subTest(each=each):\n                self.assertEqual(n.N, 2)\n\n    @unittest.skip("not here")\n    def test_skipped(self):\n        pass\n\n    @unittest.expectedFailure\n    def test_known(self):\n        self.fail("known")\n' > $each/test_n.py
  done
}
contract() {
  for each in a b; do (cd $each && python3 -m unittest -q) || exit 1; done
}
work() { echo 'N = 2' > a/n.py; echo 'N = 2' > b/n.py; }
