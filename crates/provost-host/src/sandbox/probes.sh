# Tries from inside what no fence may allow, and says for each what came of it: `denied`, or what could be
# done. Parameters: state folder, a file in it, API socket, the harness's process and port, a name that is
# found nowhere else, unshare, `check` or `agent`, then paths that must not be there, or the agent's home.
state=$1 secret=$2 socket=$3 harness=$4 port=$5 mark=$6 unshare=$7 fence=$8
shift 8
say() { printf '%s\t%s\n' "$1" "$2"; }
try() { name=$1 done=$2; shift 2; if "$@" 2>/dev/null; then say "$name" "$done"; else say "$name" denied; fi; }
write() { : > "$1"; }
connect() { (exec 9<>"/dev/tcp/127.0.0.1/$port"); }
entries() { [ -n "$(ls -A -- "$1")" ]; }

for namespace in pid net user mnt ipc; do
    say "namespace $namespace" "$(readlink "/proc/self/ns/$namespace")"
done

try state-write "the state folder could be written" write "$state/$mark.written"
if [ -e "$secret" ]; then
    say state-read "a file in the state folder could be seen"
elif [ "$fence" = agent ]; then
    try state-read "the state folder could be listed" entries "$state"
else
    say state-read denied
fi
if [ -n "$socket" ]; then
    try socket "the socket could be reached" test -S "$socket"
fi
try signal "a signal could be sent" kill -0 "$harness"
read -r self _ < /proc/self/stat
if [ "$self" = "$$" ]; then say processes denied; else say processes "process $$ sees itself as $self"; fi
try network "a connection was made" connect

if [ "$fence" = check ]; then
    seen=denied
    for path; do [ ! -e "$path" ] || seen="$path could be seen"; done
    say home-read "$seen"
    try user-namespace "a user namespace could be made" "$unshare" --user true
    # The same tool must work where it is allowed to, or its failure says nothing.
    "$unshare" --version > /dev/null || say user-namespace "unshare cannot be run"
    written=denied
    for folder in / /usr /usr/local /etc /dev /var /home /proc /sys; do
        if write "$folder/$mark" 2>/dev/null; then written="$folder could be written"; fi
    done
    say outside-write "$written"
    if [ "$(cat base)" = base ] && [ "$(cat layer)" = layer ] && write written && write "$HOME/$mark" &&
        write "/tmp/$mark"; then
        say works yes
    fi
else
    written=denied
    for folder in / /usr /etc /var; do
        if write "$folder/$mark" 2>/dev/null; then written="$folder could be written"; fi
    done
    say outside-write "$written"
    for home; do try home-write "into a layer of its own" write "$home/$mark"; done
    if [ -w . ] && write "/tmp/$mark"; then say works yes; fi
fi

# Out of the session, the group, the environment: all that could lead back to it.
(env -i setsid bash -c ': > "/tmp/$0.up"; sleep 300; :' "$mark" > /dev/null 2>&1 < /dev/null &)
for _ in $(seq 200); do
    if [ -e "/tmp/$mark.up" ]; then say daemon up; break; fi
    sleep 0.01
done
exit 0
