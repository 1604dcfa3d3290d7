"""The plan of a run's memory: how many bytes each phase will take, and which one change makes a run fit.

May import the code that it traces (recipes.trainers, recipes.sampling, recipes.models, rewards.judge), recipes.data and
recipes.cli; not recipes.run, and no other tool. Only contents.py, planner.py and
advice.py read the configuration.
"""
