# title: a file that loses its executable bit
# touches: bin/**
project() { mkdir bin; printf 'data\n' > bin/data; chmod +x bin/data; }
contract() {
  test ! -x bin/data
}
work() { chmod -x bin/data; }
