"""Starts the fork server; its own file, so that the server's is compiled once and not at every start."""

from server import main

main()
