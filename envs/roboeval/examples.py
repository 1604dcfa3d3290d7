"""What stands before the instruction in a completion-style prompt: the eight functions, and six worked examples."""

from __future__ import annotations

PREAMBLE = '''"""Programs for a service robot.

Each program is one function, task_program(), that carries out an instruction. The robot starts at its home position,
carries at most one thing at a time, and is moved by nothing but these functions: get_current_location, get_all_rooms,
is_in_room, go_to, ask, say, pick, place. To let time pass, a program calls time.sleep.
"""

import time


# The name of the place where the robot is now.
def get_current_location() -> str: ...


# The names of all places there are, the robot's home position among them.
def get_all_rooms() -> list[str]: ...


# Whether a thing or a person of that name is where the robot is.
def is_in_room(entity: str) -> bool: ...


# Drive to the place of that name.
def go_to(location: str) -> None: ...


# Put a question to a person who is here, and return the one of the options that the person chooses.
def ask(person: str, question: str, options: list[str]) -> str: ...


# Speak a message aloud, here.
def say(message: str) -> None: ...


# Take up a thing that is here; the robot's hand must be empty.
def pick(obj: str) -> None: ...


# Put down here the thing that the robot holds.
def place(obj: str) -> None: ...
'''
"""A docstring that names the functions, then a stub with its types for each. Parameters have the names under which the
simulators know them."""

EXAMPLES: tuple[tuple[str, str], ...] = (
    (
        "Ask Flora in the flower shop if the bouquet is wrapped. If it is, bring it to the bride in the tower suite, "
        "otherwise come back and tell me that it takes longer.",
        """\
def task_program():
    home = get_current_location()
    go_to("flower shop")
    wrapped = ask("Flora", "Is the bouquet wrapped?", ["Yes", "No"])
    if wrapped == "Yes":
        pick("bouquet")
        go_to("tower suite")
        place("bouquet")
    else:
        go_to(home)
        say("The bouquet takes longer.")
""",
    ),
    (
        "Move the easel, the canvas and the palette from the loft to the summer house.",
        """\
def task_program():
    for thing in ["easel", "canvas", "palette"]:
        go_to("loft")
        pick(thing)
        go_to("summer house")
        place(thing)
""",
    ),
    (
        "How many rooms have a smoke detector? Go through all of them and give me the number.",
        """\
def task_program():
    home = get_current_location()
    count = 0
    for room in get_all_rooms():
        go_to(room)
        if is_in_room("smoke detector"):
            count += 1
    go_to(home)
    say(f"{count} rooms have a smoke detector.")
""",
    ),
    (
        "Wait at the landing stage for Ruth and tell her that her cabin is number nine.",
        """\
def task_program():
    go_to("landing stage")
    while not is_in_room("Ruth"):
        time.sleep(1)
    say("Ruth, your cabin is number nine.")
""",
    ),
    (
        "Nadia is in the herb garden, Oskar in the dairy, Tilda in the orangery. Find out which of them has seen the "
        "cat; those who are not at their place need not be asked.",
        """\
def task_program():
    home = get_current_location()
    witnesses = []
    for person, room in [("Nadia", "herb garden"), ("Oskar", "dairy"), ("Tilda", "orangery")]:
        go_to(room)
        if is_in_room(person):
            answer = ask(person, "Have you seen the cat?", ["Yes", "No"])
            if answer == "Yes":
                witnesses.append(person)
    go_to(home)
    if witnesses:
        say("The cat was seen by " + " and ".join(witnesses))
    else:
        say("Nobody has seen the cat.")
""",
    ),
    (
        "The spare fuse is in the switch room or in the van. Take it to the projection room, and if it is in neither, "
        "tell them there that the show has to wait.",
        """\
def task_program():
    found = False
    for room in ["switch room", "van"]:
        go_to(room)
        if is_in_room("spare fuse"):
            pick("spare fuse")
            found = True
            break
    go_to("projection room")
    if found:
        place("spare fuse")
    else:
        say("There is no spare fuse, the show has to wait.")
""",
    ),
)
"""(instruction, program). None of them is among the training instructions or the evaluation tasks."""
