# The home of an agent: the user's own beneath, to be read, and over it a layer that takes what is written.
# Runs as root of a user and mount namespace of its own; nothing it mounts is seen outside. Every word comes
# as a parameter and none is put into another, as in the script of a check.
set -eu
umask 022
room=$1 status=$2 home=$3 kept=$4 mount=$5 mkdir=$6 size=$7 sealed=$8
shift 8
exec 3>"$status" 5<"$home" 6<"$kept"
"$mount" -n -i -t tmpfs -o "size=$size,mode=0755,nosuid,nodev" tmpfs "$room"
cd -- "$room"
unset OLDPWD
"$mkdir" home upper work
over() {
    "$mount" -n -i -t overlay -o "lowerdir=/proc/self/fd/5,upperdir=$1,workdir=$2,userxattr" overlay home
}
if ! over /proc/self/fd/6/upper /proc/self/fd/6/work 2>/dev/null; then
    # The kept folder lies on a file system that cannot carry a layer. In memory there is always room for
    # one, and what is in it goes with the attempt: whoever asked is told.
    if over upper work 2>/dev/null; then
        echo '{"home":"forgotten"}' >&3
    else
        # The home itself cannot lie beneath one.
        echo '{"home":"empty"}' >&3
    fi
fi
exec 5<&- 6<&-
# Folders to be read, each beneath an overlay of its own: a socket in it leads to nobody.
"$mkdir" nothing
number=0
while [ "$number" -lt "$sealed" ]; do
    "$mkdir" "sealed$number"
    # One that cannot lie beneath an overlay, or cannot be listed, is shown as it is.
    if [ -r "$1" ]; then exec 7<"$1"; else exec 7</dev/null; fi
    "$mount" -n -i -t overlay -o "lowerdir=/proc/self/fd/7:nothing,userxattr" overlay "sealed$number" 2>/dev/null ||
        "$mount" -n -i --rbind -- "$1" "sealed$number"
    exec 7<&-
    shift
    number=$((number + 1))
done
exec "$@"
