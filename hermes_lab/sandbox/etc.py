"""The files in a sandbox's /etc that resolve users, addresses and ports. None are copied from the host."""

from collections.abc import Mapping

from hermes_lab.sandbox.workspace import WORKSPACE

HOSTNAME = "sandbox"

_PORTS = """\
ftp 21
ssh 22
telnet 23
smtp 25
domain 53
http 80
pop3 110
ntp 123
imap2 143
snmp 161
ldap 389
https 443
submission 587
ldaps 636
imaps 993
pop3s 995
mysql 3306
postgresql 5432
redis 6379
http-alt 8080
"""
_BOTH = frozenset({"domain", "ntp", "snmp", "https"})
"""Services that also use UDP."""


def _services() -> str:
    rows = []
    for line in _PORTS.splitlines():
        name, port = line.split()
        rows += [f"{name} {port}/{kind}" for kind in ("tcp", "udp")[: 2 if name in _BOTH else 1]]
    return "\n".join(rows) + "\n"


FILES: Mapping[str, str] = {
    "passwd": f"agent:x:1000:1000::{WORKSPACE}:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n",
    "group": "agent:x:1000:\nnogroup:x:65534:\n",
    # Names are resolved from files only: a query to a name server would wait forever.
    "nsswitch.conf": "".join(
        f"{kind}: files\n" for kind in ("passwd", "group", "shadow", "hosts", "networks", "protocols", "services")
    ),
    "host.conf": "multi on\n",
    "hostname": f"{HOSTNAME}\n",
    # localhost is a single address: some clients try only the first, and most servers listen on this one.
    "hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 ip6-localhost ip6-loopback\n",
    "services": _services(),
    "protocols": "ip 0 IP\nicmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\nipv6 41 IPv6\nipv6-icmp 58 IPv6-ICMP\n",
}
"""File name -> content."""
