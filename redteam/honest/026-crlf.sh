# title: a file with CRLF line endings set by .gitattributes
# touches: win/**
project() { printf '*.bat text eol=crlf\n' > .gitattributes; mkdir win; printf 'echo one\r\n' > win/a.bat; }
contract() {
  printf 'echo two\r\n' | cmp - win/a.bat
}
work() { printf 'echo two\r\n' > win/a.bat; }
