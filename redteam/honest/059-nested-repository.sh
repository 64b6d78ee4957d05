# title: a repository that the work makes inside of touches
# touches: pkg/**
project() { mkdir pkg; echo x > pkg/readme; }
contract() {
  grep -qx lib pkg/lib/lib.txt
}
work() { mkdir pkg/lib; cd pkg/lib; git init --quiet; echo lib > lib.txt; git add --all; git -c user.name=a -c user.email=a@localhost commit --quiet --message lib; }
