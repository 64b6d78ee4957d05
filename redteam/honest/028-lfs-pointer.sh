# title: a git LFS pointer that stays a pointer
# touches: out.txt
project() {
  printf '*.bin filter=lfs diff=lfs merge=lfs -text\n' > .gitattributes
  printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 12\n' 1 > model.bin
  echo x > out.txt
}
contract() {
  grep -qx y out.txt
}
work() { echo y > out.txt; }
