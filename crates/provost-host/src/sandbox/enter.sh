# Gives bubblewrap a descriptor to report on, in a folder that nothing inside can reach.
set -eu
umask 022
status=$1
shift
exec 3>"$status"
exec "$@"
