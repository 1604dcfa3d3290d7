"""What a person would see of a program that fails, for each kind of task: the replies of envs/episode.py.

May import tasks and the sandbox; knows no reward. Hidden tests are neither run nor read here, except that masked lines
tell how far a field is from the reference's, which is what their user sees.
"""
