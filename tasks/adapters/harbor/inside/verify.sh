exec 9<> <(:)
: >{begun} || {{ chmod u+rwx . && : >{begun}; }}
until [[ -e {provided}/{name}.go ]]; do read -rt 0.01 -u 9; done
[[ ! -L /logs ]] || rm /logs
rm -rf -- /tests /solution /logs/verifier {tools}
mkdir -p /logs/verifier /logs/agent /logs/artifacts {tools}
tar -xf {provided}/{name}.tar -C / --no-same-owner || exit 1
: >{unpacked}
until [[ ! -s {provided}/{name}.tar ]]; do read -rt 0.01 -u 9; done
rm -f -- {begun} {unpacked}
exec 9>&-
{servers}
listening=$(servers)
{go_on}
(
{exports}
{script} </dev/null >{log} 2>&1
)
status=$?
{stop}
show() {{ printf '%s %s\n%s\n' {mark} "$1" "$2"; }}
part() {{ local text; [[ ! -f $2 || -L $2 ]] || {{ text=$(<"$2"); show "$1" "${{text:0:$3}}"; }}; }} 2>/dev/null
show status "$status"
show listening "$listening"
part json /logs/verifier/reward.json {json}
part reward /logs/verifier/reward.txt {reward}
part record {tools}/record {record}
part tests {tools}/tests {tests}
part ctrf /logs/verifier/ctrf.json {ctrf}
show said "$(tail -c {said} {log})" 2>/dev/null
printf '%s end\n' {mark}
rm -rf -- /tests /solution /logs/verifier {tools}
