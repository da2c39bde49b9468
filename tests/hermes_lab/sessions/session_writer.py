"""A process that appends turns to a session for as long as it lives: python session_writer.py DATABASE ID [TURNS]."""

import sys
from itertools import count
from pathlib import Path

from hermes_lab.sessions import SessionKey, SessionStore
from hermes_lab.types import Message, Usage

path, id, turns = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0
store = SessionStore(path)
if id == "new":
    session = store.create(SessionKey("test", "writer"), model="m", messages=[], tools=[])
else:
    session = store.load(id)
for number in range(turns) if turns else count():
    turn = [Message("user", f"question {number}"), Message("assistant", f"answer {number} " + "x" * 5000)]
    session = store.append(session, turn, usage=Usage(3, 1))
    print(number, flush=True)
