# Runs the contract in $1 and prints what it did besides its result, one fact a line. With `reversed` in $2,
# the tests of Python and Go run in another order.
here=$(mktemp -d) || exit 1
mkdir "$here/bin" "$here/python"
files() {
    find . \( -name .git -o -name node_modules -o -name .venv \) -prune -o \( -type f -o -type l \) \
        -printf '%p\t%s %T@ %m\n' 2>/dev/null | LC_ALL=C sort
}
# The packets that found no way out. Only a network of its own counts nothing but the check.
lost() {
    awk '$1 == last { for (i = 2; i <= NF; i++) if (name[i] == "OutNoRoutes" || $1 == "Udp:" && name[i] == "NoPorts") n += $i }
        $1 == "Ip6OutNoRoutes" { n += $2 }
        { last = $1; split($0, name, " ") } END { print n + 0 }' /proc/net/snmp /proc/net/snmp6 2>/dev/null
}
git=$(command -v git)
if [ -n "$git" ]; then
    printf '#!/bin/sh\n: > "%s/git"\nexec "%s" "$@"\n' "$here" "$git" > "$here/bin/git"
    chmod +x "$here/bin/git"
fi
if [ "$2" = reversed ]; then
    printf 'def pytest_collection_modifyitems(items):\n    items.reverse()\n' > "$here/python/provost_reversed.py"
    printf 'import unittest\nunittest.TestLoader.sortTestMethodsUsing = staticmethod(lambda a, b: (a < b) - (a > b))\n' \
        > "$here/python/sitecustomize.py"
    export PYTHONPATH="$here/python${PYTHONPATH:+:$PYTHONPATH}"
    export PYTEST_ADDOPTS="${PYTEST_ADDOPTS:+$PYTEST_ADDOPTS }-p provost_reversed"
    export GOFLAGS="${GOFLAGS:+$GOFLAGS }-shuffle=2"
fi
files > "$here/before"
before=$(lost)
PATH="$here/bin:$PATH" bash --noprofile --norc -c "$1" > /dev/null 2>&1 < /dev/null
code=$?
after=$(lost)
files > "$here/after"
echo "exit $code"
if [ -z "$(awk 'NR > 2 && $1 !~ /^lo:/' /proc/net/dev 2>/dev/null)" ] && [ "${after:-0}" -gt "${before:-0}" ]; then
    echo "network $((after - before))"
fi
if [ -e "$here/git" ]; then echo git; fi
# A file that is new, and that git ignores or a tool keeps for itself, is no change of the tree.
cut -f 1 "$here/before" > "$here/known"
LC_ALL=C comm -3 "$here/before" "$here/after" | sed 's/^\t//' | cut -f 1 | LC_ALL=C sort -u \
    | grep -vE '/(__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache|target)/|\.pyc$' > "$here/changed"
"${git:-false}" check-ignore --stdin < "$here/changed" 2>/dev/null | grep -vxFf "$here/known" > "$here/ignored"
grep -vxFf "$here/ignored" "$here/changed" > "$here/told"
head -n 5 "$here/told" | cut -c 3-82 | sed 's/^/changed /'
echo "changes $(wc -l < "$here/told")"
rm -rf "$here"
exit 0
