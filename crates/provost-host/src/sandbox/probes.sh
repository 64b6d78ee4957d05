# Tries from inside what no fence may allow, and says for each what came of it: `denied`, or what could be
# done. Parameters: state folder, a file in it, host/port of the API, the harness's process and port, a name that is
# found nowhere else, unshare, `check` or `agent`; where there are no namespaces a folder with a home and a
# temporary folder, and the place to work in; then paths that must not be there, or the agent's home.
state=$1 secret=$2 api=$3 harness=$4 port=$5 mark=$6 unshare=$7 fence=$8 own=$9 place=${10}
shift 10
tmp=/tmp
if [ -n "$own" ]; then HOME=$own/home tmp=$own/tmp; cd -- "$place" || exit 0; fi
say() { printf '%s\t%s\n' "$1" "$2"; }
try() { name=$1 done=$2; shift 2; if "$@" 2>/dev/null; then say "$name" "$done"; else say "$name" denied; fi; }
write() { : > "$1"; }
content() { [ -n "$(if [ -d "$1" ]; then ls -A -- "$1"; else head -c 1 -- "$1"; fi)" ]; }
connect() { (exec 9<>"/dev/tcp/127.0.0.1/$port"); }
reach() { (exec 9<>"/dev/tcp/$1"); }
entries() { [ -n "$(ls -A -- "$1")" ]; }

for namespace in pid net user mnt ipc; do
    say "namespace $namespace" "$(readlink "/proc/self/ns/$namespace")"
done

try state-write "the state folder could be written" write "$state/$mark.written"
if [ -n "$own" ]; then
    # That it is there may be seen.
    for path in "$secret" "$state"; do content "$path" 2>/dev/null && seen=$path; done
    if [ -n "$seen" ]; then say state-read "$seen could be read"; else say state-read denied; fi
elif [ -e "$secret" ]; then
    say state-read "a file in the state folder could be seen"
elif [ "$fence" = agent ]; then
    try state-read "the state folder could be listed" entries "$state"
else
    say state-read denied
fi
if [ -n "$api" ]; then
    try api "the server's API could be reached" reach "$api"
fi
try signal "a signal could be sent" kill -0 "$harness"
try process-read "the harness's environment could be read" content "/proc/$harness/environ"
read -r self _ < /proc/self/stat
if [ "$self" = "$$" ]; then say processes denied; else say processes "process $$ sees itself as $self"; fi
try network "a connection was made" connect

if [ "$fence" = check ]; then
    seen=denied
    for path; do
        if [ -n "$own" ]; then
            if content "$path" 2>/dev/null; then seen="$path could be read"; fi
        elif [ -e "$path" ]; then
            seen="$path could be seen"
        fi
    done
    say home-read "$seen"
    try user-namespace "a user namespace could be made" "$unshare" --user true
    # The same tool must work where it is allowed to, or its failure says nothing.
    "$unshare" --version > /dev/null || say user-namespace "unshare cannot be run"
    sleep 300 &
    other=$!
    if grep -q '^Seccomp:[[:space:]]*2' /proc/self/status && ! write "/proc/$other/mem" 2>/dev/null; then
        say trace denied
    else
        say trace "another process of the check could be traced or written"
    fi
    kill "$other"
    written=denied
    for folder in / /usr /usr/local /etc /dev /var /home /proc /sys; do
        if write "$folder/$mark" 2>/dev/null; then rm -f "$folder/$mark"; written="$folder could be written"; fi
    done
    say outside-write "$written"
    if [ "$(cat base)" = base ] && [ "$(cat layer)" = layer ] && write written && write "$HOME/$mark" &&
        write "$tmp/$mark"; then
        say works yes
    fi
else
    written=denied
    for folder in / /usr /etc /var; do
        if write "$folder/$mark" 2>/dev/null; then rm -f "$folder/$mark"; written="$folder could be written"; fi
    done
    say outside-write "$written"
    for home; do try home-write "into a layer of its own" write "$home/$mark"; done
    # Without namespaces, root has no rights to the workspace of another user.
    if { [ -n "$own" ] && ls -A . > /dev/null || [ -w . ]; } && write "$tmp/$mark"; then say works yes; fi
fi

# Out of the session, the group, the environment: all that could lead back to it.
(env -i setsid bash -c ': > "$1/$0.up"; sleep 300; :' "$mark" "$tmp" > /dev/null 2>&1 < /dev/null &)
for _ in $(seq 200); do
    if [ -e "$tmp/$mark.up" ]; then say daemon up; break; fi
    sleep 0.01
done
exit 0
