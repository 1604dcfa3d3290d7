"""Starts the fork server. This file is separate, so that the server's module is compiled once and not at every
start."""

from server import main

main()
