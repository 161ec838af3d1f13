# anycard attempt
# What stands around one program: claims the attempt, runs the program in the foreground, writes down how it ended.
# Given to `sh -c` whole (comments taken out), so an upgrade never changes a script that is being run.
# $1 folder  $2 boot id  $3 note (JSON the supervisor wants back)  $4 log header  $5 cwd  $6 umask  $7... the program
# Only builtins: the program's own process is the one fork. Variables carry a prefix so as not to overwrite the program's.
trap : TERM INT HUP
umask 077
set -C
_anycard_folder=$1
_anycard_umask=$6
_anycard_stat=
[ -r /proc/self/stat ] && read -r _anycard_stat </proc/self/stat
# noclobber makes this an exclusive create: of all who try, one goes on.
{ printf '%s\n%s\n%s\n%s\n' "$$" "$_anycard_stat" "$2" "$3" >"$1/started"; } 2>/dev/null || exit 120
_anycard_refuse() {
  printf 'cannot-start %s\n' "$1" >"$_anycard_folder/exit"
  exit 121
}
[ -z "$4" ] || printf '%s' "$4"
if ! cd -- "$5" 2>/dev/null; then
  [ -d "$5" ] && _anycard_refuse cwd-refused
  _anycard_refuse cwd-missing
fi
unset OLDPWD
shift 6
case $1 in
*/*)
  [ -e "$1" ] || _anycard_refuse program-missing
  { [ ! -d "$1" ] && [ -x "$1" ]; } || _anycard_refuse program-refused
  ;;
*) command -v -- "$1" >/dev/null 2>&1 || _anycard_refuse program-missing ;;
esac
# exec, so that a program called "echo" or "exit" is that program and not the shell's own word.
(
  umask "$_anycard_umask"
  exec "$@"
)
_anycard_status=$?
# One write; a reader takes the line only when its newline is there.
{ printf 'exited %d\n' "$_anycard_status" >"$_anycard_folder/exit"; } 2>/dev/null
exit "$_anycard_status"
