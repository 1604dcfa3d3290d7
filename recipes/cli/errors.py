"""What ends a run without a fault of its own: a mistake the user can mend, or a request to stop."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can mend; the message says what and how, in one line."""


class Stopped(KeyboardInterrupt):
    """The run was asked to stop and has left what it takes to go on."""
