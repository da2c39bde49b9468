# Process 1 of a sandbox: runs one command at a time for as long as the episode lives.
#
# stdin    a line for every command to run; the line `alone` stops all background processes meanwhile
# stdout   its exit status, a line
# SIGUSR1  kill the command that runs now
# $1       descriptor of the exchange folder, which no path inside the sandbox reaches
# $2 $3 $4 limits of a command: kB of memory, processes, kB of one file
#
# Commands have the same uid as this shell. It keeps one capability that they drop, and that means nothing in a user
# namespace: so the kernel lets none of them open its descriptors or trace it, and nobody can kill process 1 from inside.

folder=$1 memory=$2 processes=$3 file=$4
exchange=/proc/self/fd/$folder
job=
umask 022
set -m # each command leads a process group of its own
trap '[[ $job ]] && kill -KILL -- "-$job"' USR1

# BASH_ENV brings back the directory and variables of the command before; descriptor 199 takes them at the end.
start() {
  ulimit -c 0 -v "$memory" -u "$processes" -f "$file"
  BASH_ENV=/dev/fd/198 exec setpriv --inh-caps=-all --ambient-caps=-all bash -c "$1" bash \
    198<"$exchange/prelude" 199>"$exchange/state" </dev/null >"$exchange/output" 2>&1 {folder}<&-
}

echo ready
exec 2>/dev/null
while read -r how; do
  IFS= read -r -d '' command <"$exchange/command"
  [[ $how == alone ]] && kill -STOP -1
  start "$command" &
  job=$!
  wait -f "$job" # or until SIGUSR1
  status=$?
  job=
  [[ $how == alone ]] && kill -CONT -1
  echo "$status"
done
