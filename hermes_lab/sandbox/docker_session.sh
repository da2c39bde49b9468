# Process 1 of a container: runs one command at a time for as long as the episode lives.
#
# stdin    a line for every command to run; the line `alone` stops all background processes meanwhile. `start N` starts
#          a program with pipes beside the commands, `end PID` kills one
# stdout   its exit status, a line; after it `oom` where memory ran out, `crowded` where processes did before it
# SIGUSR1  kill the command that runs now
# $1 $2    uid and gid of the commands
# $3       processes at once, besides this one
#
# It is root with the capabilities to become another and to kill, and nothing more; a command has none. So no command
# can open its descriptors, trace it or signal it, nor reach the exchange folder, which lies below a folder of root's.

owner=(--reuid="$1" --regid="$2" --clear-groups)
nothing=(--inh-caps=-all --ambient-caps=-all --bounding-set=-all --no-new-privs)
processes=$3
exchange=${0%/*}
job= ooms=0 oom= crowded=
umask 022
trap '[[ $job ]] && kill -KILL -- "-$job"' USR1

for counter in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  [[ -r $counter ]] && kills=$counter
done
for counter in /sys/fs/cgroup/pids.current /sys/fs/cgroup/pids/pids.current; do
  [[ -r $counter ]] && current=$counter
done

# BASH_ENV brings back the directory and variables of the command before; descriptor 199 takes them at the end.
# What the command gets from root it may open again by /dev/stdout, so it must be writable to all, and appended to.
start() {
  echo 1000 >"/proc/$BASHPID/oom_score_adj" # the kernel kills commands before process 1
  umask 000
  exec 198<"$exchange/prelude" 199>"$exchange/state" </dev/null >>"$exchange/output" 2>&1
  umask 022
  BASH_ENV=/dev/fd/198 exec setpriv "${owner[@]}" "${nothing[@]}" bash -c "$1" bash
}

# A program with pipes. Its pid, which is that of its process group, the word `open` once it has its pipes, and its exit
# status go to a pipe; what waits for it is a fork of this shell, with its privileges.
launch() {
  echo 1000 >"/proc/$BASHPID/oom_score_adj"
  exec 196>"$exchange/$number.status" </dev/null >/dev/null || exit 126 # gives up those of process 1
  IFS= read -r -d '' command <"$exchange/$number.command"
  echo "$BASHPID" >&196
  (
    exec <"$exchange/$number.in" >"$exchange/$number.out" 2>"$exchange/$number.err" || exit 126
    echo open >&196
    exec 196>&-
    exec setpriv "${owner[@]}" "${nothing[@]}" bash -c "$command" bash
  )
  echo "$?" >&196
}

# What fills the process limit in the background would keep the next command from starting: it is ended. A command
# needs two places, for itself and for what it starts.
make_room() {
  local count
  crowded=
  while read -r count <"$current" && ((count > 1 && count >= processes)); do
    crowded=crowded
    kill -KILL -1
  done
}

# Whether the kernel killed for want of memory since it was asked last.
count_ooms() {
  local name value
  oom=
  while read -r name value; do
    if [[ $name == oom_kill ]] && ((value > ooms)); then
      oom=oom ooms=$value
    fi
  done <"$kills"
}

missing=
type -P setpriv >/dev/null || missing=setpriv
[[ ${current-} && ${kills-} ]] || missing="pids and memory cgroups"
[[ $missing ]] && { echo "it has no $missing" >&2; exit 1; }
echo ready
exec 2>/dev/null
while read -r how number; do
  case $how in
  start)
    make_room
    set -m
    launch &
    set +m
    continue
    ;;
  end)
    kill -KILL -- "-$number"
    continue
    ;;
  esac
  IFS= read -r -d '' command <"$exchange/command"
  make_room
  [[ $how == alone ]] && kill -STOP -1
  set -m # the command leads a process group of its own
  start "$command" &
  job=$!
  set +m # so that a command that was stopped has not ended; `wait -f` says so too, but at times spins for ever
  wait "$job" # or until SIGUSR1
  status=$?
  # `wait` has returned for a command that stopped before `set +m`, with 128 and the signal: it has not ended either.
  # Reading from a pipe that stays open is a sleep without another program.
  while ((status >= 147 && status <= 150)) && kill -0 "$job"; do
    read -r -t 0.05 <> <(:)
    wait "$job"
    status=$?
  done
  job=
  [[ $how == alone ]] && kill -CONT -1
  count_ooms
  echo "$status" $oom $crowded
done
