# title: files of a submodule that no contract names
# touches: out.txt
project() {
  echo x > out.txt
  git init --quiet ../sub; (cd ../sub; echo lib > lib.txt; git add --all; git commit --quiet --message lib)
  git -c protocol.file.allow=always submodule --quiet add ../sub vendor/sub
}
contract() {
  cat $(find vendor -name lib.txt) out.txt | tr -d '\n' | grep -qx liby
}
work() { echo y > out.txt; }
