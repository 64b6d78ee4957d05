# The tree of a check: base, taken-over files and deletions under one writable layer of bounded size.
# Runs as root of a user and mount namespace of its own; nothing it mounts is seen outside.
# Every word comes as a parameter and none is put into another: what a path holds cannot be run, and
# cannot become an option of a mount. So base and layer are named by their descriptors, which also keeps
# the harness's own paths out of the mount table that the check can read.
set -eu
umask 022
room=$1 status=$2 size=$3 lower=$4 layer=$5 over=$6 mount=$7 mkdir=$8 rm=$9
shift 9
deleted=$1 layered=$2
shift 2
exec 3>"$status" 5<"$lower" 6<"$layer"
beneath=/proc/self/fd/5
if [ -n "$over" ]; then
    exec 7<"$over"
    beneath=/proc/self/fd/7:/proc/self/fd/5
fi
"$mount" -n -i -t tmpfs -o "size=$size,nosuid,nodev" tmpfs "$room"
cd -- "$room"
unset OLDPWD
"$mkdir" upper work tree tmp home run shm
"$mount" -n -i -t overlay -o "lowerdir=/proc/self/fd/6:$beneath,upperdir=upper,workdir=work,userxattr" overlay tree
exec 5<&- 6<&- 7<&-
# Folders besides the tree that are put together of several: each is laid out with names of its own.
while [ "$layered" -gt 0 ]; do
    "$mkdir" "kept$1" "upper$1" "work$1"
    cd -- "$2"
    "$mount" -n -i -t overlay -o "lowerdir=$3,upperdir=upper,workdir=work,userxattr,volatile" overlay "$room/kept$1"
    cd -- "$room"
    unset OLDPWD
    shift 3
    layered=$((layered - 1))
done
# The paths that are to vanish come first, as many as was said; a shell can drop the first of its
# parameters but not the last, so they go round to the end.
delete() {
    rest=$(($# - deleted))
    turned=0
    while [ "$turned" -lt "$deleted" ]; do
        set -- "$@" "$1"
        shift
        turned=$((turned + 1))
    done
    shift "$rest"
    cd tree
    "$rm" -rf -- "$@"
    cd ..
    unset OLDPWD
}
if [ "$deleted" -gt 0 ]; then
    delete "$@"
    shift "$deleted"
fi
exec "$@"
