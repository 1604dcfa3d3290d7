"""Einstein Toolkit: thorns of a Cactus checkout as a task, and what is judged by compiling and running."""
