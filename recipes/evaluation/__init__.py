"""Evaluation of policies and of tasks' problems; imports recipes.sampling and rooms below, not recipes.run or tools."""
