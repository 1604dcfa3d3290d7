"""Families of instructions to fetch, move and hand over things."""

from envs.roboeval.generated.family import Family

FAMILIES = (
    Family(
        "bring",
        (
            "{Bring|Fetch|Get} me the $thing1 from $room1.",
            "The $thing1 is in $room1. {Bring it to me|Get it for me|I need it here}.",
            "{Go to|Drive to} $room1, {take|pick up} the $thing1 {and come back with it|and bring it here}.",
            "I {need|want|would like to have} the $thing1. You will find it in $room1.",
        ),
        """
start = get_current_location()
go_to($room1)
pick($thing1)
go_to(start)
place($thing1)
""",
    ),
    Family(
        "bring_if_there",
        (
            "If there is a $thing1 in $room1, bring it to me. {If not|Otherwise}, {tell me that|come back and say that} there is none.",
            "Look for a $thing1 in $room1 and {bring it here|fetch it}; {if there is none|if you see none}, come back and tell me.",
            "I hope the $thing1 is in $room1. {Bring it|Get it for me} if it is there, and {tell me|let me know} if it is not.",
            "Fetch me the $thing1 from $room1. It may be gone: then {report that to me|come and tell me so}.",
        ),
        """
start = get_current_location()
go_to($room1)
if is_in_room($thing1):
    pick($thing1)
    go_to(start)
    place($thing1)
else:
    go_to(start)
    say("There is no @thing1.")
""",
    ),
    Family(
        "search_and_bring",
        (
            "The $thing1 is {somewhere|} in $rooms_or. {Find it|Look for it} and bring it to me.",
            "Search $rooms for the $thing1 and bring it here {once you have found it|when you see it}.",
            "One of these rooms has the $thing1: $rooms. {Get it|Fetch it} for me.",
            "Go through $rooms {one after another|in turn} until you see the $thing1. Bring it to me.",
        ),
        """
start = get_current_location()
for room in $rooms:
    go_to(room)
    if is_in_room($thing1):
        pick($thing1)
        go_to(start)
        place($thing1)
        break
""",
    ),
    Family(
        "bring_several",
        (
            "{Bring|Fetch|Get} me $things from $room1.",
            "$things are in $room1. {Bring them all to me|I need all of them here}.",
            "I {need|want} $things here. {They are|You find them} in $room1; carry one at a time.",
            "Go to $room1 for $things, one {after the other|by one}, and put them down here.",
        ),
        """
start = get_current_location()
for thing in $things:
    go_to($room1)
    pick(thing)
    go_to(start)
    place(thing)
""",
    ),
    Family(
        "move",
        (
            "{Take|Move|Carry|Bring} the $thing1 from $room1 to $room2.",
            "The $thing1 {stands|is|lies} in $room1 but {belongs|should be} in $room2. {Move it there|Take it there}.",
            "{Get|Fetch} the $thing1 from $room1 and {leave it|put it down} in $room2.",
            "$room2 needs the $thing1 that is in $room1. {Deliver it|Carry it over}.",
        ),
        """
go_to($room1)
pick($thing1)
go_to($room2)
place($thing1)
""",
    ),
    Family(
        "move_and_report",
        (
            "Take the $thing1 from $room1 to $room2, {come back|return} and tell me that it is done.",
            "Move the $thing1 from $room1 to $room2. {Then|Afterwards} {report to me|let me know} that it is done.",
            "Bring the $thing1 in $room1 to $room2 and {confirm to me|tell me here} when it is done.",
        ),
        """
start = get_current_location()
go_to($room1)
pick($thing1)
go_to($room2)
place($thing1)
go_to(start)
say("It is done.")
""",
    ),
    Family(
        "hand_over",
        (
            "Take the $thing1 from $room1 to $who1 in $room2 and {say|tell them} that $news1.",
            "$who1 is in $room2. Bring them the $thing1 from $room1 and tell them that $news1.",
            "Get the $thing1 from $room1, {deliver it|bring it} to $who1 in $room2, and say there that $news1.",
        ),
        """
go_to($room1)
pick($thing1)
go_to($room2)
place($thing1)
say($news1)
""",
    ),
    Family(
        "deliver_if_present",
        (
            "Take the $thing1 from $room1 to $room2 if $who1 is there. {If not|Otherwise}, put it into $room3.",
            "The $thing1 in $room1 is for $who1. Bring it to $room2; if they are not there, {leave it in|take it to} $room3.",
            "Pick up the $thing1 in $room1 and look for $who1 in $room2. Leave it there if you meet them, {else|otherwise} in $room3.",
        ),
        """
go_to($room1)
pick($thing1)
go_to($room2)
if not is_in_room($who1):
    go_to($room3)
place($thing1)
""",
    ),
    Family(
        "bring_if_wanted",
        (
            "Ask $who1 in $room1 whether they {want|need|would like} the $thing1. If {so|they do}, bring it to them from $room2.",
            "Find out from $who1 in $room1 if they {want|need} the $thing1, and if the answer is yes, {get|fetch} it for them from $room2.",
            "$who1, who is in $room1, may {want|need} the $thing1 from $room2. Ask, and bring it to them if they say yes.",
        ),
        """
go_to($room1)
answer = ask($who1, "Do you want the @thing1?", ["yes", "no"])
if answer == "yes":
    go_to($room2)
    pick($thing1)
    go_to($room1)
    place($thing1)
""",
    ),
    Family(
        "bring_what_is_chosen",
        (
            "Ask $who1 in $room1 whether they want $which_things, and bring it to them from $room2.",
            "Does $who1 in $room1 want $which_things? Ask, then {fetch it|get it} from $room2 for them.",
            "Let $who1 in $room1 choose {between|from} $things. {Bring|Take} them from $room2 what they choose.",
        ),
        """
go_to($room1)
choice = ask($who1, $which_things, $things)
go_to($room2)
pick(choice)
go_to($room1)
place(choice)
""",
    ),
    Family(
        "bring_me_what_is_chosen",
        (
            "Ask $who1 in $room1 which of $things I should use, and bring it to me from $room2.",
            "$who1 in $room1 decides whether I get $which_things. Ask, then bring me that thing from $room2.",
            "Find out from $who1 in $room1 which they can spare, $which_things, and get it for me from $room2.",
        ),
        """
start = get_current_location()
go_to($room1)
choice = ask($who1, "Which one should it be?", $things)
go_to($room2)
pick(choice)
go_to(start)
place(choice)
""",
    ),
    Family(
        "bring_what_is_there",
        (
            "Some of these things may be in $room1: $things. Bring me {those|all} that are there.",
            "Look in $room1 for $things and bring me each one that {is there|you see}.",
            "Bring $things from $room1 to me, but only {those that are there|what is there}.",
        ),
        """
start = get_current_location()
for thing in $things:
    go_to($room1)
    if is_in_room(thing):
        pick(thing)
        go_to(start)
        place(thing)
""",
    ),
    Family(
        "collect_and_count",
        (
            "Bring me the $thing1 from each of $rooms that has one, and tell me how many you brought.",
            "Collect a $thing1 from $rooms, wherever there is one. Put them down here and {tell me the number|say how many there were}.",
            "Check $rooms for a $thing1. Bring every one here, and at the end {report|tell me} how many it were.",
        ),
        """
start = get_current_location()
count = 0
for room in $rooms:
    go_to(room)
    if is_in_room($thing1):
        pick($thing1)
        go_to(start)
        place($thing1)
        count += 1
go_to(start)
say(f"I brought {count}.")
""",
    ),
    Family(
        "clear_rooms_of_a_kind",
        (
            "Take every $thing1 that you find in one of the $word_s to $room1.",
            "Go through all rooms with {the word|} $word in their name. {Whenever|If} there is a $thing1, {carry|take} it to $room1.",
            "Each $word may have a $thing1. Bring {all of them|them all} to $room1.",
        ),
        """
for room in get_all_rooms():
    if $word in room:
        go_to(room)
        if is_in_room($thing1):
            pick($thing1)
            go_to($room1)
            place($thing1)
""",
    ),
    Family(
        "two_errands",
        (
            "Take the $thing1 from $room1 to $room2 and the $thing2 from $room3 to $room4.",
            "The $thing1 in $room1 has to go to $room2. {Then|After that} carry the $thing2 from $room3 to $room4.",
            "Two errands: the $thing1, from $room1 to $room2, and the $thing2, from $room3 to $room4.",
        ),
        """
go_to($room1)
pick($thing1)
go_to($room2)
place($thing1)
go_to($room3)
pick($thing2)
go_to($room4)
place($thing2)
""",
    ),
    Family(
        "refill",
        (
            "If there is no $thing1 in $room1, bring one there from $room2.",
            "Make sure that $room1 has a $thing1: if {it has none|there is none}, take one there from $room2.",
            "Check whether $room1 has a $thing1. If not, {get|fetch} one from $room2 and put it there.",
        ),
        """
go_to($room1)
if not is_in_room($thing1):
    go_to($room2)
    pick($thing1)
    go_to($room1)
    place($thing1)
""",
    ),
    Family(
        "take_away",
        (
            "Take the $thing1 that {lies|stands|is} here to $room1 {and come back|and return}.",
            "The $thing1 here {must go|belongs} to $room1. {Take it there|Carry it there} and come back to me.",
            "Bring the $thing1 from here to $room1. {Come back afterwards|Then return}.",
        ),
        """
start = get_current_location()
pick($thing1)
go_to($room1)
place($thing1)
go_to(start)
""",
    ),
    Family(
        "exchange",
        (
            "Take the $thing1 from $room1 to $room2, and bring the $thing2 from $room2 {back|} to $room1.",
            "Exchange the $thing1 in $room1 for the $thing2 in $room2: first take the $thing1 over, then bring the $thing2.",
        ),
        """
go_to($room1)
pick($thing1)
go_to($room2)
place($thing1)
pick($thing2)
go_to($room1)
place($thing2)
""",
    ),
    Family(
        "distribute",
        (
            "Put a $thing1 into each of $rooms. {Take them from|They are in} $room1.",
            "$rooms get a $thing1 each from $room1. {Carry them there one by one|Deliver them}.",
            "Bring a $thing1 from $room1 to each of these rooms: $rooms.",
        ),
        """
for room in $rooms:
    go_to($room1)
    pick($thing1)
    go_to(room)
    place($thing1)
""",
    ),
    Family(
        "bring_either",
        (
            "Bring me the $thing1 from $room1, or if it is not there, the $thing2 from $room2.",
            "I would like the $thing1 from $room1. If {there is none|it is missing}, {bring|get} me the $thing2 from $room2 instead.",
            "Look for the $thing1 in $room1 and bring it; if it is not there, I want the $thing2 from $room2.",
        ),
        """
start = get_current_location()
go_to($room1)
if is_in_room($thing1):
    thing = $thing1
else:
    thing = $thing2
    go_to($room2)
pick(thing)
go_to(start)
place(thing)
""",
    ),
)
