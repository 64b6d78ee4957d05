# title: a file name that changes only in case, and a link that is replaced by a file
# touches: docs/**
project() { mkdir docs; echo x > docs/README; ln -s README docs/latest; }
contract() {
  test ! -e docs/README && grep -qx x docs/readme && test ! -L docs/latest && grep -qx y docs/latest
}
work() { mv docs/README docs/readme; rm docs/latest; echo y > docs/latest; }
