"""What a run did, drawn: report.html and the charts of every other page and benchmark.

May import recipes.tools.diagnosis, recipes.tools.memory, recipes.evaluation, recipes.records and recipes.cli; not
recipes.trainers and not recipes.run.
"""
