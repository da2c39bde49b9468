"""Stored chat sessions: one SQLite database, searchable, from which a session resumes byte for byte."""

from hermes_lab.sessions.database import Hit, Session, SessionInfo, SessionStore
from hermes_lab.sessions.home import hermes_home
from hermes_lab.sessions.keys import SessionKey

__all__ = ["Hit", "Session", "SessionInfo", "SessionKey", "SessionStore", "hermes_home"]
