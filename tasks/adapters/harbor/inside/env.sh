# Sourced by every bash that a test script starts: notes the commands that it does not find, which bash alone would not.
command_not_found_handle() {
  printf '%s: line %s: %s: command not found\n' "$0" "${BASH_LINENO[0]}" "$1" >&2
  [[ $0 != /tests/* ]] || printf '{"not_found": "%s"}\n' "${1//[\"\\]/}" >>"$HERMES_LAB_VERIFIER/record"
  return 127
}
