# title: a conftest that must change with the work, and that touches names
# touches: shop.py, tests/conftest.py
# needs: python3 -m pytest --version
project() {
  mkdir tests
  printf 'class Shop:\n    def __init__(self):\n        self.open = False\n' > shop.py
  printf 'import pathlib, sys\n\nimport pytest\n\nsys.path.insert(0, str(pathlib.Path(__file__).parent.parent))\n\n\n@pytest.fixture\ndef shop():\n    import shop\n    return shop.Shop()\n' > tests/conftest.py
  printf 'def test_it_opens(shop):\n    assert shop.open\n\n\ndef test_it_is_a_shop(shop):\n    assert type(shop).__name__ == "Shop"\n' > tests/test_shop.py
}
contract() {
  python3 -m pytest -q tests
}
work() {
  printf 'class Shop:\n    def __init__(self, hours):\n        self.open = hours > 0\n' > shop.py
  sed -i 's/Shop()/Shop(hours=8)/' tests/conftest.py
}
