"""Families of instructions to look at places and to report what is there."""

from envs.roboeval.generated.family import Family

FAMILIES = (
    Family(
        "is_it_there",
        (
            "{Check|Look|See} whether there is a $thing1 in $room1 and {tell me|report to me|let me know}.",
            "Is there a $thing1 in $room1? {Go and look|Have a look}, then {come back and|} tell me.",
            "Go to $room1, look for a $thing1, and come back to tell me {whether there is one|if there is one}.",
            "I want to know if the $thing1 is in $room1. {Look and report|Go there and tell me}.",
        ),
        """
start = get_current_location()
go_to($room1)
found = is_in_room($thing1)
go_to(start)
if found:
    say("Yes, there is a @thing1.")
else:
    say("No, there is no @thing1.")
""",
    ),
    Family(
        "is_somebody_there",
        (
            "{Check|Look|See} whether $who1 is in $room1 and {tell me|report to me}.",
            "Is $who1 in $room1? {Go and see|Find out}, then tell me.",
            "Go to $room1 and come back to tell me {whether|if} $who1 is there.",
        ),
        """
start = get_current_location()
go_to($room1)
present = is_in_room($who1)
go_to(start)
if present:
    say("Yes, @who1 is there.")
else:
    say("No, @who1 is not there.")
""",
    ),
    Family(
        "count_rooms",
        (
            "How many of $rooms have a $thing1? {Go and see|Look}, and tell me the number.",
            "Count in how many of $rooms there is a $thing1 and {tell me|report the number to me}.",
            "Go through $rooms and look for a $thing1. {Come back and say|Tell me} how many of them have one.",
        ),
        """
start = get_current_location()
count = 0
for room in $rooms:
    go_to(room)
    if is_in_room($thing1):
        count += 1
go_to(start)
say(f"{count} have one.")
""",
    ),
    Family(
        "where_is_it",
        (
            "The $thing1 is in $rooms_or. Find it and tell me where it is, or that it is nowhere.",
            "{Where is|In which room is} the $thing1? Look in $rooms and tell me the room; {if it is in none, say so|say if you cannot find it}.",
            "Search $rooms for the $thing1. Tell me {which room it is in|where you saw it}, or that you {did not find it|found nothing}.",
        ),
        """
start = get_current_location()
place_found = "nowhere"
for room in $rooms:
    go_to(room)
    if is_in_room($thing1):
        place_found = room
        break
go_to(start)
say(f"It is {place_found}.")
""",
    ),
    Family(
        "list_rooms_of_a_kind",
        (
            "Which of the $word_s have a $thing1? Tell me their names.",
            "Go to every room with $word in its name, look for a $thing1, and tell me the names of those that have one.",
            "Visit all $word_s. {Report to me|Tell me}, by name, where you saw a $thing1.",
        ),
        """
start = get_current_location()
seen = []
for room in get_all_rooms():
    if $word in room:
        go_to(room)
        if is_in_room($thing1):
            seen.append(room)
go_to(start)
say(", ".join(seen))
""",
    ),
    Family(
        "count_rooms_of_a_kind",
        (
            "How many $word_s have a $thing1? {Look|Go and see}, and tell me the number.",
            "Visit every $word and count {those with|how many have} a $thing1. {Come back and tell|Tell} me the result.",
            "Check all $word_s for a $thing1 and report {how many have one|the number of those with one} to me.",
        ),
        """
start = get_current_location()
count = 0
for room in get_all_rooms():
    if $word in room:
        go_to(room)
        if is_in_room($thing1):
            count += 1
go_to(start)
say(f"{count} have one.")
""",
    ),
    Family(
        "count_all_rooms",
        (
            "Go through all rooms and tell me how many {have|contain} a $thing1.",
            "{In how many rooms is there|How many rooms have} a $thing1? Look into all of them and {report|tell me}.",
            "Visit every room, count those with a $thing1, and {tell me the number|let me know how many}.",
        ),
        """
start = get_current_location()
count = 0
for room in get_all_rooms():
    go_to(room)
    if is_in_room($thing1):
        count += 1
go_to(start)
say(f"{count} rooms have one.")
""",
    ),
    Family(
        "everywhere",
        (
            "Do all of $rooms have a $thing1? {Look, then|Go and see, and} tell me yes or no.",
            "Check $rooms. Tell me yes if there is a $thing1 in {each|every one} of them, and no otherwise.",
            "Find out if there is a $thing1 in every one of $rooms, and {answer|tell me} yes or no.",
        ),
        """
start = get_current_location()
complete = True
for room in $rooms:
    go_to(room)
    if not is_in_room($thing1):
        complete = False
go_to(start)
if complete:
    say("Yes.")
else:
    say("No.")
""",
    ),
    Family(
        "anywhere",
        (
            "Is there a $thing1 in any of $rooms? {Look, then|Go and see, and} tell me yes or no.",
            "Check $rooms. Tell me yes if there is a $thing1 in {at least one|any} of them, and no otherwise.",
            "Look for a $thing1 in $rooms. {Answer yes|Say yes to me} if you see one {somewhere|anywhere}, otherwise no.",
        ),
        """
start = get_current_location()
found = False
for room in $rooms:
    go_to(room)
    if is_in_room($thing1):
        found = True
go_to(start)
if found:
    say("Yes.")
else:
    say("No.")
""",
    ),
    Family(
        "what_is_missing",
        (
            "$things should be in $room1. {Look|Check}, and tell me what is missing, or that all is there.",
            "Go to $room1 and see whether $things are there. Tell me {which are missing|what is missing}; if nothing is, say that all is there.",
            "Check $room1 for $things. {Come back and name|Name me} the missing things, or say that all is there.",
        ),
        """
start = get_current_location()
go_to($room1)
missing = []
for thing in $things:
    if not is_in_room(thing):
        missing.append(thing)
go_to(start)
if len(missing) == 0:
    say("All is there.")
else:
    say("Missing: " + ", ".join(missing))
""",
    ),
    Family(
        "what_is_there",
        (
            "Which of $things are in $room1? {Look and tell me|Go there and report to me}.",
            "Go to $room1 and look for $things. Tell me which of them {are there|you see}.",
            "See which of these things $room1 has: $things. {Tell me|Report to me}.",
        ),
        """
start = get_current_location()
go_to($room1)
seen = []
for thing in $things:
    if is_in_room(thing):
        seen.append(thing)
go_to(start)
say("There: " + ", ".join(seen))
""",
    ),
    Family(
        "count_things",
        (
            "How many of $things are in $room1? {Count and tell me|Tell me the number}.",
            "Count how many of $things you see in $room1 and {tell me|let me know}.",
            "Go to $room1. {Of|Out of} $things, how many are there? Come back with the number.",
        ),
        """
start = get_current_location()
go_to($room1)
count = 0
for thing in $things:
    if is_in_room(thing):
        count += 1
go_to(start)
say(f"{count} of them are there.")
""",
    ),
    Family(
        "both_things",
        (
            "Are both the $thing1 and the $thing2 in $room1? {Look, and tell me|Tell me} yes or no.",
            "Go to $room1 and check if the $thing1 and the $thing2 are both there. Tell me yes or no.",
        ),
        """
start = get_current_location()
go_to($room1)
both = is_in_room($thing1) and is_in_room($thing2)
go_to(start)
if both:
    say("Yes.")
else:
    say("No.")
""",
    ),
    Family(
        "count_numbered",
        (
            "Look into $word_s 1 to $number and tell me how many have a $thing1.",
            "How many of the $word_s 1 to $number have a $thing1? {Go and count|Count} them and tell me.",
            "There are $number $word_s, $word 1 to $word $number. Tell me how many of them have a $thing1.",
        ),
        """
start = get_current_location()
count = 0
for number in range(1, $number + 1):
    go_to(f"@word {number}")
    if is_in_room($thing1):
        count += 1
go_to(start)
say(f"{count} have one.")
""",
    ),
    Family(
        "list_numbered",
        (
            "Go through $word_s 1 to $number. Tell me the numbers of those with a $thing1.",
            "Which of the $word_s 1 to $number have a $thing1? {Tell me|Report} their numbers.",
        ),
        """
start = get_current_location()
numbers = []
for number in range(1, $number + 1):
    go_to(f"@word {number}")
    if is_in_room($thing1):
        numbers.append(str(number))
go_to(start)
say("Numbers: " + ", ".join(numbers))
""",
    ),
    Family(
        "report_to_somebody",
        (
            "Look whether there is a $thing1 in $room1 and tell $who1 in $room2 {yes or no|whether there is one}.",
            "$who1 in $room2 wants to know if $room1 has a $thing1. {Check|Look}, and tell them.",
            "Check $room1 for a $thing1, then go to $who1 in $room2 and {say|report} whether there is one.",
        ),
        """
go_to($room1)
found = is_in_room($thing1)
go_to($room2)
if found:
    say("Yes, there is a @thing1.")
else:
    say("No, there is no @thing1.")
""",
    ),
    Family(
        "which_of_two",
        (
            "Is the $thing1 in $room1 or in $room2? {Look|Go and see}, and tell me which.",
            "The $thing1 must be in $room1 or $room2. {Look into the first of them|Check the first}; if it is not there, it is in the other. Tell me where it is.",
        ),
        """
start = get_current_location()
go_to($room1)
if is_in_room($thing1):
    where = $room1
else:
    where = $room2
go_to(start)
say(f"It is in {where}.")
""",
    ),
)
