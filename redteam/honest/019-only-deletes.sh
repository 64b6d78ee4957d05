# title: a step that only deletes
# touches: legacy/**
project() { mkdir -p legacy/deep/er; echo x > legacy/a; echo y > legacy/deep/er/b; echo z > keep; }
contract() {
  test ! -e legacy
}
work() { rm -r legacy; }
