"""Asking a policy in a terminal: answers streamed, programs run, problems graded. Imports no report, card or export."""
