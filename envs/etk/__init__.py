"""The Einstein Toolkit: source files of thorns as a task, and in build/ and completion/ masked lines of a simulation.

It may import the modules of envs; it must not import rewards or recipes.
"""
