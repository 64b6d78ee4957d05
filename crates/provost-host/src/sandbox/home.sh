# The home of an agent: the user's own beneath, to be read, and over it a layer that takes what is written.
# Runs as root of a user and mount namespace of its own; nothing it mounts is seen outside. Every word comes
# as a parameter and none is put into another, as in the script of a check.
set -eu
umask 022
room=$1 status=$2 home=$3 kept=$4 mount=$5 mkdir=$6 size=$7
shift 7
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
exec "$@"
