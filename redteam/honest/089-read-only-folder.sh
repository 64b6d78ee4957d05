# title: a read-only folder, as package caches make it
# touches: vendor/**
project() { mkdir vendor; echo x > vendor/keep; }
contract() {
  grep -qx lib vendor/cache/lib/a.txt
}
work() { mkdir -p vendor/cache/lib; echo lib > vendor/cache/lib/a.txt; chmod 444 vendor/cache/lib/a.txt; chmod 555 vendor/cache/lib vendor/cache; }
