# title: a CRLF file of the repository that the contract reads and the work does not change
# touches: out.txt
project() {
  printf '*.bat text eol=crlf\n' > .gitattributes; mkdir win; printf 'echo one\r\n' > win/a.bat
  echo x > out.txt
}
contract() {
  printf 'echo one\r\n' | cmp - win/a.bat
  grep -qx y out.txt
}
work() { echo y > out.txt; }
