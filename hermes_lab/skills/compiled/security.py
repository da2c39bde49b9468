"""Static security checks of a skill's Python scripts; nothing is run.

They tell authors what will not work in the sandbox, and users what to review before installing a skill. They are not a
security boundary, since code can hide what it does; the sandbox is the boundary.
"""

import ast
import builtins
import posixpath
import re
from collections.abc import Iterator
from functools import cached_property

from hermes_lab.skills.compiled.problems import Kind, Problem, Severity, network, written
from hermes_lab.skills.compiled.shell import SECRETS, scan_shell

__all__ = ["Problem", "scan_python", "scan_shell"]

_NETWORK_MODULES = (
    "asyncio.open_connection aiohttp ftplib http.client http.server httpx imaplib paramiko poplib requests"
)
_NETWORK_MODULES += " smtplib socket socketserver ssl telnetlib urllib.request urllib3 websockets xmlrpc"
_NETWORK = frozenset(_NETWORK_MODULES.split())
_LOCAL = re.compile(
    r"socket\.(AF_UNIX|SOCK_\w+|SOL_\w+|SO_\w+|SHUT_\w+|error|timeout|gaierror|herror|socketpair|gethostname)"
)
_LOCAL_HOST = re.compile(r"localhost|127(\.\d+){3}|::1|/.*")
_FORBIDDEN: dict[str, str] = {
    **dict.fromkeys(("ctypes", "_ctypes", "cffi"), "calls native code"),
    **dict.fromkeys(("os.fork", "os.forkpty", "pty", "_posixsubprocess"), "forks processes"),
    **dict.fromkeys(("os._exit", "os.abort"), "ends the process before its tests have finished"),
    **dict.fromkeys(
        ("os.setuid", "os.setgid", "os.setsid", "os.chroot", "os.mount"), "changes its user, session or file system"
    ),
    **dict.fromkeys(("marshal.loads", "marshal.load"), "runs bytecode"),
    **dict.fromkeys(
        ("sys.settrace", "sys.setprofile", "gc.get_objects"), "inspects the Python interpreter that runs it"
    ),
}
_SUSPICIOUS: dict[str, str] = {
    "pickle.load": "can run code from the data",
    "pickle.loads": "can run code from the data",
    "os.kill": "signals other processes",
    "os.killpg": "signals other processes",
}
_SHELLS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}
_EVALUATORS = {"eval", "exec", "compile"}
_DECODERS = {"b64decode", "b85decode", "a85decode", "b32decode", "unhexlify", "fromhex", "decompress", "decode", "chr"}
_INTERNALS = {"__subclasses__", "__globals__", "__builtins__", "__code__", "__closure__"}
_WRITERS = """
os.chmod os.chown os.link os.makedirs os.mkdir os.remove os.rename os.replace os.rmdir os.symlink os.truncate os.unlink
shutil.copy shutil.copy2 shutil.copyfile shutil.copytree shutil.move shutil.rmtree
"""
_PATH_WRITERS = {"write_text", "write_bytes", "touch", "mkdir", "unlink", "rmdir", "symlink_to", "hardlink_to", "chmod"}
_PATHS = {"join", "Path", "PurePath", "PosixPath", "expanduser", "abspath", "str", "fspath"}
_UNKNOWN = "*"


def scan_python(tree: ast.Module, path: str) -> list[Problem]:
    """Returns the problems of a Python script, in line order, without duplicates."""
    return sorted(set(_Script(tree, path).problems()), key=lambda problem: problem.line)


class _Script:
    """A parsed script. Resolves names through `import ... as` and, to find decoded data, through assignments."""

    def __init__(self, tree: ast.Module, path: str) -> None:
        self._path = path
        self._nodes = list(ast.walk(tree))
        self._names: dict[str, str] = {}
        self._values: dict[str, list[ast.expr]] = {}
        for node in self._nodes:
            match node:
                case ast.Import(names=names):
                    for name in names:
                        top = name.name.partition(".")[0]
                        self._names[name.asname or top] = name.name if name.asname else top
                case ast.ImportFrom(module=str(module), names=names):
                    self._names |= {name.asname or name.name: f"{module}.{name.name}" for name in names}
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._values.setdefault(name, []).append(value)

    @cached_property
    def _only_local(self) -> bool:
        """Whether the script uses `socket` only for sockets of this machine, such as AF_UNIX."""
        known: set[int] = set()  # the nodes of local calls, and of names that open no connection
        for node in self._nodes:
            if isinstance(node, ast.Call) and self._is_local_call(node):
                known.update(map(id, ast.walk(node.func)))
            elif isinstance(node, (ast.Name, ast.Attribute)) and _LOCAL.fullmatch(self._dotted(node)):
                known.update(map(id, ast.walk(node)))
        others = [
            node
            for node in self._nodes
            if isinstance(node, (ast.Name, ast.Attribute))
            and id(node) not in known
            and self._dotted(node).partition(".")[0] in ("socket", "__import__", "importlib")
        ]
        return bool(known) and not others and "socket.*" not in self._names.values()

    def _is_local_call(self, node: ast.Call) -> bool:
        name, first = self._dotted(node.func), node.args[0] if node.args else None
        if name == "socket.socket":
            return first is not None and self._dotted(first) == "socket.AF_UNIX"
        if name not in ("socket.create_connection", "socket.create_server"):
            return False
        host = first.elts[0] if isinstance(first, ast.Tuple) and first.elts else None
        return host is not None and _LOCAL_HOST.fullmatch(self._text(host)) is not None

    def problems(self) -> Iterator[Problem]:
        documentation = {id(node.value) for node in self._nodes if isinstance(node, ast.Expr)}
        for node in self._nodes:
            match node:
                case ast.Import(names=names):
                    for name in names:
                        yield from self._used(node, name.name)
                case ast.ImportFrom(module=str(module), names=names):
                    for name in names:
                        yield from self._used(node, f"{module}.{name.name}")
                case ast.Attribute(attr=attribute):
                    yield from self._used(node, self._dotted(node))
                    if attribute in _INTERNALS:
                        yield self._error(node, f"uses Python internals: {attribute}")
                case ast.Call():
                    yield from self._called(node)
                case ast.Constant(value=str()) | ast.BinOp() | ast.JoinedStr() if id(node) not in documentation:
                    if secret := SECRETS.search(self._text(node)):
                        yield self._error(node, f"reads secrets: {secret[0]}")

    def _used(self, node: ast.AST, name: str) -> Iterator[Problem]:
        parts = name.split(".")
        for known in (".".join(parts[:count]) for count in range(1, len(parts) + 1)):
            if known in _NETWORK and not (known == "socket" and self._only_local):
                yield network(self._path, getattr(node, "lineno", 0), known)
            elif known in _FORBIDDEN:
                yield self._error(node, f"{known} {_FORBIDDEN[known]}")
            elif known in _SUSPICIOUS:
                yield self._problem("warning", node, f"{known} {_SUSPICIOUS[known]}")

    def _called(self, node: ast.Call) -> Iterator[Problem]:
        name = self._dotted(node.func).removeprefix("builtins.")
        texts = [self._text(argument) for argument in node.args]
        shell = any(word.arg == "shell" and not _is_false(word.value) for word in node.keywords)
        if name in _SHELLS or (name.startswith("subprocess.") and shell):
            yield from self._shell(node, texts[0] if texts else _UNKNOWN)
        if name in _EVALUATORS and node.args:
            yield from self._evaluated(node, name)
        if name in ("__import__", "importlib.import_module", "importlib.__import__"):
            yield from self._imported(node, texts[0] if texts else _UNKNOWN)
        if name == "getattr" and len(texts) > 1:
            inner = self._dotted(node.args[0])
            if _UNKNOWN in texts[1] and inner in ("os", "sys", "subprocess", "builtins", "importlib"):
                yield self._error(node, f"hides which part of {inner} it uses")
            yield from self._used(node, f"{inner}.{texts[1]}")
        for target in self._written(node, name, texts):
            if problem := written(self._path, node.lineno, target):
                yield problem

    def _shell(self, node: ast.Call, command: str) -> Iterator[Problem]:
        yield from scan_shell(command, self._path, node.lineno)
        if _UNKNOWN in command:
            how = "builds a shell command at run time; pass a list of arguments to subprocess.run"
            yield self._problem("error", node, how, "sandboxed")
        else:
            yield self._problem("warning", node, "runs a shell string; pass a list of arguments to subprocess.run")

    def _evaluated(self, node: ast.Call, name: str) -> Iterator[Problem]:
        if self._is_decoded(node.args[0], 3):
            yield self._error(node, f"{name} of decoded data")
        else:
            yield self._problem("warning", node, f"{name} runs text as code")

    def _imported(self, node: ast.Call, module: str) -> Iterator[Problem]:
        if _UNKNOWN in module:
            yield self._error(node, "hides what it imports")
        yield from self._used(node, module)

    def _written(self, node: ast.Call, name: str, texts: list[str]) -> list[str]:
        """Returns the paths that a call would modify, as far as they are known statically."""
        if name in ("open", "io.open"):
            modes = [self._text(word.value) for word in node.keywords if word.arg == "mode"] or texts[1:2]
            return texts[:1] if any(set("wax+") & set(mode) for mode in modes) else []
        if name in _WRITERS.split():
            return texts[-1:] if name.startswith(("shutil.copy", "os.symlink", "os.link")) else texts
        if isinstance(node.func, ast.Attribute) and node.func.attr in _PATH_WRITERS:
            return [self._text(node.func.value)]
        if isinstance(node.func, ast.Attribute) and node.func.attr == "open" and set("wax+") & set("".join(texts)):
            return [self._text(node.func.value)]
        return []

    def _is_decoded(self, node: ast.expr, depth: int) -> bool:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call) and self._dotted(inner.func).rpartition(".")[2] in _DECODERS:
                return True
            values = self._values.get(inner.id, ()) if isinstance(inner, ast.Name) and depth else ()
            if any(self._is_decoded(value, depth - 1) for value in values):
                return True
        return False

    def _dotted(self, node: ast.expr) -> str:
        """Returns the dotted name, e.g. `os.path.join`, with import aliases resolved; `*` for other expressions."""
        match node:
            case ast.Name(id=name):
                return self._names.get(name, name if hasattr(builtins, name) else _UNKNOWN)
            case ast.Attribute(value=value, attr=attribute):
                return f"{self._dotted(value)}.{attribute}"
            case ast.Call(func=function, args=[ast.Constant(value=str(module)), *_]):
                if self._dotted(function) in ("__import__", "importlib.import_module"):
                    return module
        return _UNKNOWN

    def _text(self, node: ast.expr) -> str:
        """Returns the string or path that an expression evaluates to, with `*` for unknown parts."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._text(left) + self._text(right)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return posixpath.join(self._text(left), self._text(right))
            case ast.BinOp(left=left, op=ast.Mod()):
                return re.sub(r"%[^%]", _UNKNOWN, self._text(left))
            case ast.JoinedStr(values=parts):
                return "".join(self._text(part) for part in parts)
            case ast.FormattedValue(value=value):
                return self._text(value)
            case ast.Call(func=function, args=[first, *rest]) if self._dotted(function).rpartition(".")[2] in _PATHS:
                return posixpath.join(self._text(first), *map(self._text, rest))
            case ast.Name(id=name) if len(values := self._values.get(name, [])) == 1:
                return self._text(values[0]) if isinstance(values[0], ast.Constant) else _UNKNOWN
        return _UNKNOWN

    def _error(self, node: ast.AST, message: str) -> Problem:
        return self._problem("error", node, message)

    def _problem(self, severity: Severity, node: ast.AST, message: str, kind: Kind = "") -> Problem:
        return Problem(severity, self._path, getattr(node, "lineno", 0), message, kind)


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value
