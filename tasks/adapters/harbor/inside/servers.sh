# Prints yes if the agent left a server: a listening socket that a process here holds. No process here holds that of the
# proxy which programs ask, and the servers of the program itself do not count: its files are mounted read-only.
servers() {
  local state inode at options process fd word own
  local -A open=()
  local -a installed=() words=()
  while read -r _ _ _ state _ _ _ _ _ inode _; do [[ $state != 0A ]] || open[$inode]=1; done </proc/net/tcp
  while read -r _ _ _ state _ _ _ _ _ inode _; do [[ $state != 0A ]] || open[$inode]=1; done </proc/net/tcp6
  while read -r _ _ _ state _ _ inode _; do [[ $state != 00010000 ]] || open[$inode]=1; done </proc/net/unix
  ((${#open[@]})) || return
  while read -r _ _ _ _ at options _; do
    [[ $at == / || ,$options, != *,ro,* ]] || installed+=("$at")
  done </proc/self/mountinfo
  for process in /proc/[0-9]*; do
    own=
    mapfile -d '' -t words <"$process/cmdline"
    for word in "${words[@]:0:2}"; do
      for at in "${installed[@]}"; do [[ $word != "$at"/* ]] || own=yes; done
    done
    [[ ! $own ]] || continue
    for fd in "$process"/fd/*; do
      [[ -S $fd ]] || continue
      inode=$(readlink "$fd")
      inode=${inode//[^0-9]/}
      [[ ! ${open[${inode:-0}]-} ]] || { echo yes; return; }
    done
  done
} 2>/dev/null
