# The functions of a warm session's process 1, which runs one command at a time for as long as the episode lives.
#
# stdin    a line for every command to run; the line `alone` stops all other processes meanwhile. `start N` starts a
#          program with pipes beside the commands, `end PID` kills one
# stdout   a command's exit status, a line
# SIGUSR1  kill the command that runs now
# $1       descriptor of the exchange folder, which no path inside a sandbox reaches
# $2 $3 $4 limits of a command: kB of memory, processes, kB of one file
# $5       limit of a program: kB of memory
#
# A command is a fork of this shell, which costs a third of starting another. What keeps commands from its descriptors:
# its binary may be executed but not read, so the kernel lets no process without privilege trace it or open what is
# below its /proc entry. It never reads a command or its state itself, so no fork finds an earlier one in its memory.

begin() {
  exec 197<&"$1" # whatever its number was: 198 and 199 are those of a command
  folder=197 exchange=/proc/self/fd/197 memory=$2 processes=$3 file=$4 program=$5 how='' number='' job='' status=''
  local fd
  for fd in /proc/self/fd/*; do # such as those that the harness itself inherited
    ((${fd##*/} < 3 || ${fd##*/} == folder)) || eval "exec ${fd##*/}<&-"
  done
  umask 022
  trap '[[ $job ]] && kill -KILL -- "-$job"' USR1
  echo ready
  exec 2>/dev/null
}

next() {
  read -r how number || return
  [[ $how != alone ]] || kill -STOP -1
  set -m # the command leads a process group of its own
}

# In the fork: gives up all that is process 1's. The prelude at descriptor 198, run next, brings back the directory and
# variables of the command before, and is that command's own text; descriptor 199 takes them at the end.
enter() {
  exec 198<"$exchange/prelude" 199>>"$exchange/state" </dev/null >>"$exchange/output" 2>&1 || exit 126
  IFS= read -r -d '' BASH_EXECUTION_STRING <"$exchange/command"
  eval "exec $folder<&-"
  set +m
  ulimit -c 0 -v "$memory" -u "$processes" -f "$file"
  unset -v folder exchange memory processes file program how number job status
  unset -f begin next enter launch finish
  SECONDS=0
}

# In the fork: a program with pipes. Its pid, which is that of its process group, the word `open` once it has its pipes,
# and its exit status go to a pipe; what waits for it is a fork of process 1, too.
launch() {
  set +m
  exec 196>"$exchange/$number.status" </dev/null >/dev/null || exit 126 # gives up those of process 1
  IFS= read -r -d '' BASH_EXECUTION_STRING <"$exchange/$number.command"
  echo "$BASHPID" >&196
  (
    exec <"$exchange/$number.in" >"$exchange/$number.out" 2>"$exchange/$number.err" || exit 126
    echo open >&196
    exec 196>&-
    eval "exec $folder<&-"
    ulimit -c 0 -v "$program" -u "$processes" -f "$file"
    unset -v folder exchange memory processes file program how number job status
    unset -f begin next enter launch finish
    eval "$BASH_EXECUTION_STRING"
  )
  echo "$?" >&196
}

finish() {
  job=$!
  set +m       # so that a command that was stopped has not ended; `wait -f` says so too, but at times spins for ever
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
  [[ $how != alone ]] || kill -CONT -1
  echo "$status"
}
