"""Conversations that outlive a process: kept whole in one SQLite database, resumed byte for byte, searched."""

from hermes_lab.sessions.database import Hit, Session, SessionInfo, SessionStore
from hermes_lab.sessions.home import hermes_home
from hermes_lab.sessions.keys import SessionKey

__all__ = ["Hit", "Session", "SessionInfo", "SessionKey", "SessionStore", "hermes_home"]
