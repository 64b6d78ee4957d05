#!/bin/sh
# Stands before a program of the same name on the PATH of a check: reports that it starts where it is a test
# runner, sees to it that the reporters for Python and node are loaded, and becomes the program itself.
name=${0##*/}
own=${0%/*}
reporters=${own%/*}

case $name in
python* | py* | coverage | tox | nox | uv | poetry | pipenv | pdm | hatch)
    case ":$PYTHONPATH:" in
    *":$reporters/python:"*) ;;
    *) export PYTHONPATH="$reporters/python${PYTHONPATH:+:$PYTHONPATH}" ;;
    esac
    ;;
node*)
    case " $NODE_OPTIONS " in
    *" --require=$reporters/reporter.cjs "*) ;;
    *) export NODE_OPTIONS="--require=$reporters/reporter.cjs${NODE_OPTIONS:+ $NODE_OPTIONS}" ;;
    esac
    ;;
*)
    if [ -z "$PROVOST_INSIDE" ] && [ -p "$PROVOST_REPORT" ]; then
        record=$(printf 'start\037%s\037%s\037%s' "$name" "$$" "$PWD" && [ $# -eq 0 ] || printf '\037%s' "$@")
        printf '%s\n' "$(printf %s "$record" | tr '\n' ' ')" >"$PROVOST_REPORT"
    fi
    ;;
esac

# A version manager's own shim may come back here: then this folder is not looked at again.
deeper=$((${PROVOST_SHIM_DEPTH:-0} + 1))
if [ "$PROVOST_SHIM" = "$$ $name" ] || [ "$deeper" -gt 30 ]; then
    rest=:$PATH:
    while :; do
        case $rest in
        *":$own:"*) rest="${rest%%":$own:"*}:${rest#*":$own:"}" ;;
        *) break ;;
        esac
    done
    rest=${rest#:}
    export PATH="${rest%:}"
    deeper=0
fi
export PROVOST_SHIM="$$ $name" PROVOST_SHIM_DEPTH="$deeper"

rest=$PATH:
while [ -n "$rest" ]; do
    folder=${rest%%:*}
    rest=${rest#*:}
    if [ "$folder" != "$own" ] && [ -f "$folder/$name" ] && [ -x "$folder/$name" ]; then
        exec "$folder/$name" "$@"
    fi
done
echo "$name: command not found" >&2
exit 127
