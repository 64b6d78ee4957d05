# title: a folder that nobody may write, as package caches are
# touches: vendor/**
project() { mkdir vendor; echo x > vendor/keep; }
contract() {
  grep -qx lib vendor/cache/lib/a.txt
}
work() { mkdir -p vendor/cache/lib; echo lib > vendor/cache/lib/a.txt; chmod 444 vendor/cache/lib/a.txt; chmod 555 vendor/cache/lib vendor/cache; }
