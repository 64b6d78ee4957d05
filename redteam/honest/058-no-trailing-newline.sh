# title: binary bytes, an empty file and a file without a final newline
# touches: bin/**
project() { mkdir bin; echo x > bin/readme; }
contract() {
  test ! -s bin/empty && test -e bin/empty
  printf '\000\377\r' | cmp - bin/bytes
}
work() { : > bin/empty; printf '\000\377\r' > bin/bytes; }
