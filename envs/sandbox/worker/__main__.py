"""Starts the fork server. This file is separate, so that the server's modules are compiled once and not at every
start."""

from start import main

main()
