"""Families of instructions to pass on messages, to wait, and to go round."""

from envs.roboeval.generated.family import Family

FAMILIES = (
    Family(
        "tell_one",
        (
            "Tell $who1 in $room1 that $news1.",
            "Go to $room1 and {tell|inform} $who1 that $news1.",
            "$who1 is in $room1. {Let them know|Say to them} that $news1.",
        ),
        """
go_to($room1)
say($news1)
""",
    ),
    Family(
        "tell_and_return",
        (
            "Tell $who1 in $room1 that $news1, and come back.",
            "Go to $room1, {tell|inform} $who1 that $news1, then {return|come back} here.",
        ),
        """
start = get_current_location()
go_to($room1)
say($news1)
go_to(start)
""",
    ),
    Family(
        "tell_if_present",
        (
            "Tell $who1 in $room1 that $news1. If they are not there, {tell me|come back and tell me that}.",
            "Go to $room1 and let $who1 know that $news1; if you do not see them, come back and {tell me|say so}.",
            "See if $who1 is in $room1. If so, say that $news1. If not, tell me that they are away.",
        ),
        """
start = get_current_location()
go_to($room1)
if is_in_room($who1):
    say($news1)
else:
    go_to(start)
    say("@who1 is not there.")
""",
    ),
    Family(
        "announce",
        (
            "Announce in $rooms that $news1.",
            "Go to $rooms and {say|announce} in each of them that $news1.",
            "Let the people in $rooms know that $news1.",
        ),
        """
for room in $rooms:
    go_to(room)
    say($news1)
""",
    ),
    Family(
        "announce_to_listeners",
        (
            "Go to $rooms. Wherever somebody is, {say|announce} that $news1.",
            "If there is anybody in $rooms_or, tell them that $news1. {Stay silent|Say nothing} in empty rooms.",
        ),
        """
for room in $rooms:
    go_to(room)
    if is_in_room("person"):
        say($news1)
""",
    ),
    Family(
        "announce_in_rooms_of_a_kind",
        (
            "Say in every $word that $news1.",
            "Visit all $word_s and announce {there|in each of them} that $news1.",
            "Everybody in one of the $word_s has to know that $news1. Go and tell them.",
        ),
        """
for room in get_all_rooms():
    if $word in room:
        go_to(room)
        say($news1)
""",
    ),
    Family(
        "announce_everywhere",
        (
            "Go through all rooms and say in each that $news1. {Then come back|Come back here at the end}.",
            "Visit every room, announce that $news1, and return here.",
        ),
        """
start = get_current_location()
for room in get_all_rooms():
    go_to(room)
    say($news1)
go_to(start)
""",
    ),
    Family(
        "search_person",
        (
            "$who1 is in $rooms_or. Find them and say that $news1.",
            "Look for $who1 in $rooms, and when you meet them, tell them that $news1.",
        ),
        """
for room in $rooms:
    go_to(room)
    if is_in_room($who1):
        say($news1)
        break
""",
    ),
    Family(
        "where_is_somebody",
        (
            "Look for $who1 in $rooms and tell me where they are, or that they are nowhere.",
            "In which of $rooms is $who1? {Go and see|Look}, and tell me; if they are in none, say nowhere.",
        ),
        """
start = get_current_location()
found = "nowhere"
for room in $rooms:
    go_to(room)
    if is_in_room($who1):
        found = room
        break
go_to(start)
say(f"@who1 is {found}.")
""",
    ),
    Family(
        "wait_and_tell",
        (
            "Wait in $room1 until $who1 {comes|is there}, then tell them that $news1.",
            "$who1 will come to $room1. Wait there for them and say that $news1.",
        ),
        """
go_to($room1)
while not is_in_room($who1):
    time.sleep(1)
say($news1)
""",
    ),
    Family(
        "wait_and_report",
        (
            "Wait in $room1 until you see $who1, then come back and tell me that they are there.",
            "Go to $room1 and wait for $who1. {When they come|As soon as they are there}, come and tell me.",
        ),
        """
start = get_current_location()
go_to($room1)
while not is_in_room($who1):
    time.sleep(1)
go_to(start)
say("@who1 is there.")
""",
    ),
    Family(
        "wait_for_thing",
        (
            "Wait in $room1 until a $thing1 {is there|has been put there}, and bring it to me.",
            "Somebody will leave a $thing1 in $room1. Wait for it there and bring it here.",
        ),
        """
start = get_current_location()
go_to($room1)
while not is_in_room($thing1):
    time.sleep(1)
pick($thing1)
go_to(start)
place($thing1)
""",
    ),
    Family(
        "choice_to_other",
        (
            "Ask $who1 in $room1 $question, $options, and tell $who2 in $room2 what they said.",
            "$who2 in $room2 wants to know of $who1 in $room1 $question: $options. Ask and tell them.",
        ),
        """
go_to($room1)
choice = ask($who1, $question, $options)
go_to($room2)
say(f"The answer is {choice}.")
""",
    ),
    Family(
        "choice_to_rooms",
        (
            "Ask $who1 in $room1 $question, $options, and announce the answer in $rooms.",
            "Find out from $who1 in $room1 $question: $options. Then say it in $rooms.",
        ),
        """
go_to($room1)
choice = ask($who1, $question, $options)
for room in $rooms:
    go_to(room)
    say(f"The answer is {choice}.")
""",
    ),
    Family(
        "message_by_answer",
        (
            "Ask $who1 in $room1 whether $ask1. If so, tell $who2 in $room2 that $news1, otherwise tell them that $news2.",
            "If $who1 in $room1 says that $ask1, tell $who2 in $room2 that $news1; if not, that $news2.",
        ),
        """
go_to($room1)
answer = ask($who1, $ask1, ["yes", "no"])
go_to($room2)
if answer == "yes":
    say($news1)
else:
    say($news2)
""",
    ),
    Family(
        "message_by_sight",
        (
            "If there is a $thing1 in $room1, tell $who1 in $room2 that $news1. Otherwise just come back.",
            "Look for a $thing1 in $room1. If you see one, go to $room2 and say to $who1 that $news1; if not, return here.",
        ),
        """
start = get_current_location()
go_to($room1)
if is_in_room($thing1):
    go_to($room2)
    say($news1)
else:
    go_to(start)
""",
    ),
    Family(
        "say_by_room",
        (
            "Go to $rooms. Say there that $news1 if there is a $thing1, and that $news2 if there is none.",
            "Visit $rooms and look for a $thing1. Where there is one, say that $news1; where there is none, that $news2.",
        ),
        """
for room in $rooms:
    go_to(room)
    if is_in_room($thing1):
        say($news1)
    else:
        say($news2)
""",
    ),
    Family(
        "lead",
        (
            "Lead $who1 from $room1 to $room2 and say there that $news1.",
            "Pick $who1 up in $room1, {show them the way|go with them} to $room2, and tell them there that $news1.",
        ),
        """
go_to($room1)
go_to($room2)
say($news1)
""",
    ),
    Family(
        "lead_where_wanted",
        (
            "Ask $who1 here whether to go to $room1 or $room2, and lead them there.",
            "$who1 stands here and wants to see $room1 or $room2. Ask which, and go there with them.",
        ),
        """
choice = ask($who1, "Where do you want to go?", [$room1, $room2])
go_to(choice)
""",
    ),
    Family(
        "tour",
        (
            "Go to $rooms, in this order, and come back.",
            "Make a tour of $rooms and return here.",
            "Visit $rooms one after another. Come back at the end.",
        ),
        """
start = get_current_location()
for room in $rooms:
    go_to(room)
go_to(start)
""",
    ),
    Family(
        "first_with",
        (
            "Go through $rooms in this order and stay in the first one with a $thing1.",
            "Stop at the first of $rooms where there is a $thing1.",
        ),
        """
for room in $rooms:
    go_to(room)
    if is_in_room($thing1):
        break
""",
    ),
)
