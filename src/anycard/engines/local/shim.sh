# What stands around one program: claims the attempt, runs the program in the foreground, writes down how it ended.
# Given whole in $_anycard_shim to `sh -c 'eval "$_anycard_shim"'`, so an upgrade never changes a script that is being run, `ps` shows the
# program and not this, and in shared mode nobody needs to read our files. Comment lines are taken out before.
# $1 stem  $2 cwd  $3 umask  $4... the program
# $_anycard_enter files of control groups, parted by blanks, into which 0 is written to enter
# $_anycard_boot boot id  $_anycard_note JSON the supervisor wants back  $_anycard_header first lines of the log
# Only builtins: the program's own process is the one fork. Variables carry a prefix so as not to overwrite the program's.
trap : TERM INT HUP
umask 077
set -C
_anycard_stem=$1
_anycard_cwd=$2
_anycard_umask=$3
shift 3
# The second line is the process's line of /proc/PID/stat where somebody else writes the claim; here the mark in the environment proves who
# the pid is, for `read` would take a system call a byte.
# The shell itself has nothing to say in the log: what it cannot do is said by the record, and it would write "Terminated" or "Killed"
# below what the program said. The program gets its standard error back.
exec 9>&2 2>/dev/null
# noclobber makes this an exclusive create: of all who try, one goes on.
printf '%s\n\n%s\n%s\n' "$$" "$_anycard_boot" "$_anycard_note" >"$_anycard_stem.record" || exit 120
_anycard_refuse() {
  printf '\ncannot-start %s\n' "$1" >>"$_anycard_stem.record"
  exit 121
}
for _anycard_entrance in $_anycard_enter; do
  echo 0 >|"$_anycard_entrance" || _anycard_refuse limits-refused
done
[ -z "$_anycard_header" ] || printf '%s' "$_anycard_header"
if ! cd -- "$_anycard_cwd"; then
  [ -d "$_anycard_cwd" ] && _anycard_refuse cwd-refused
  _anycard_refuse cwd-missing
fi
unset OLDPWD _anycard_enter _anycard_shim _anycard_boot _anycard_note _anycard_header
case $1 in
*/*)
  [ -e "$1" ] || _anycard_refuse program-missing
  { [ ! -d "$1" ] && [ -x "$1" ]; } || _anycard_refuse program-refused
  ;;
*) command -v -- "$1" >/dev/null || _anycard_refuse program-missing ;;
esac
# exec, so that a program called "echo" or "exit" is that program and not the shell's own word.
(
  exec 2>&9 9>&-
  umask "$_anycard_umask"
  exec "$@"
)
_anycard_status=$?
# One write, on a line of its own whatever the program put there; a reader takes the line only when its newline is there.
printf '\nexited %d\n' "$_anycard_status" >>"$_anycard_stem.record"
exit "$_anycard_status"
