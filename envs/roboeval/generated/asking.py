"""Families of instructions to ask people and to report or use what they answer."""

from envs.roboeval.generated.family import Family

FAMILIES = (
    Family(
        "ask_one",
        (
            "Ask $who1 in $room1 whether $ask1, and tell me the answer.",
            "Go to $room1, ask $who1 if $ask1, and {come back with the answer|report the answer to me}.",
            "I want to know whether $ask1. {Ask|The one to ask is} $who1 in $room1. Tell me what they say.",
            "{Find out|Learn} from $who1 in $room1 whether $ask1. {Tell me|Let me know}.",
        ),
        """
start = get_current_location()
go_to($room1)
answer = ask($who1, $ask1, ["yes", "no"])
go_to(start)
say(f"The answer is {answer}.")
""",
    ),
    Family(
        "ask_choice",
        (
            "Ask $who1 in $room1 $question, $options, and tell me.",
            "Find out from $who1 in $room1 $question: $options. {Report it to me|Tell me the answer}.",
            "Go to $who1 in $room1 and ask $question. They can say $options. {Come back and tell me|Tell me} what they chose.",
        ),
        """
start = get_current_location()
go_to($room1)
choice = ask($who1, $question, $options)
go_to(start)
say(f"The answer is {choice}.")
""",
    ),
    Family(
        "count_yes",
        (
            "Ask $people whether $ask1. Tell me how many said yes.",
            "Find out from $people if $ask1, and tell me {the number of those who said yes|how many answered yes}.",
            "$people: ask each of them whether $ask1, and report to me how many say yes.",
        ),
        """
start = get_current_location()
count = 0
for person, room in $people:
    go_to(room)
    if ask(person, $ask1, ["yes", "no"]) == "yes":
        count += 1
go_to(start)
say(f"{count} said yes.")
""",
    ),
    Family(
        "names_of_yes",
        (
            "Ask $people whether $ask1. Tell me the names of those who said yes.",
            "Find out from $people if $ask1, and tell me who said yes.",
            "Which of $people say that $ask1? Ask {them|each of them} and report the names to me.",
        ),
        """
start = get_current_location()
names = []
for person, room in $people:
    go_to(room)
    if ask(person, $ask1, ["yes", "no"]) == "yes":
        names.append(person)
go_to(start)
say("Yes: " + ", ".join(names))
""",
    ),
    Family(
        "names_of_no",
        (
            "Ask $people whether $ask1. Tell me who said no.",
            "Find out from $people if $ask1, and give me the names of those who said no.",
        ),
        """
start = get_current_location()
names = []
for person, room in $people:
    go_to(room)
    if ask(person, $ask1, ["yes", "no"]) == "no":
        names.append(person)
go_to(start)
say("No: " + ", ".join(names))
""",
    ),
    Family(
        "everybodys_choice",
        (
            "Ask $people $question, $options, and tell me what each of them said.",
            "Find out from $people $question: $options. Report to me who said what.",
        ),
        """
start = get_current_location()
answers = []
for person, room in $people:
    go_to(room)
    choice = ask(person, $question, $options)
    answers.append(f"{person}: {choice}")
go_to(start)
say(", ".join(answers))
""",
    ),
    Family(
        "most_wanted",
        (
            "Ask $people $question, $options. Tell me the answer that most of them gave.",
            "$people shall vote $question: $options. {Tell me which won|Report the winner to me}.",
        ),
        """
start = get_current_location()
votes = []
for person, room in $people:
    go_to(room)
    votes.append(ask(person, $question, $options))
go_to(start)
say(max($options, key=votes.count))
""",
    ),
    Family(
        "ask_if_present",
        (
            "If $who1 is in $room1, ask whether $ask1 and tell me the answer. {If not|Otherwise}, tell me that they are not there.",
            "Go to $room1 and ask $who1 if $ask1. Report the answer, or that {you did not meet them|they were not there}.",
            "See if $who1 is in $room1. Ask them whether $ask1 if they are, and tell me what they said; if they are away, tell me that.",
        ),
        """
start = get_current_location()
go_to($room1)
if is_in_room($who1):
    answer = ask($who1, $ask1, ["yes", "no"])
    go_to(start)
    say(f"The answer is {answer}.")
else:
    go_to(start)
    say("@who1 is not there.")
""",
    ),
    Family(
        "sum_of_numbers",
        (
            "Ask $people $count_of, 0 to 3, and tell me the sum.",
            "Find out from $people $count_of. Each can say 0, 1, 2 or 3. {Add the numbers and tell|Tell} me how many $counted it is together.",
        ),
        """
start = get_current_location()
total = 0
for person, room in $people:
    go_to(room)
    total += int(ask(person, $count_of, ["0", "1", "2", "3"]))
go_to(start)
say(f"Together {total} @counted.")
""",
    ),
    Family(
        "ask_number",
        (
            "Ask $who1 in $room1 $count_of, 1, 2 or 3, and tell me.",
            "I need to know $count_of: 1, 2 or 3. Ask $who1 in $room1 and tell me the number.",
        ),
        """
start = get_current_location()
go_to($room1)
number = ask($who1, $count_of, ["1", "2", "3"])
go_to(start)
say(f"{number} @counted.")
""",
    ),
    Family(
        "until_yes",
        (
            "Ask $people, one after the other, whether $ask1, until one of them says yes. Tell me who that is, or that it is nobody.",
            "I need one person who says that $ask1. Ask $people in turn, stop at the first yes, and tell me the name; if all say no, tell me nobody.",
        ),
        """
start = get_current_location()
name = "nobody"
for person, room in $people:
    go_to(room)
    if ask(person, $ask1, ["yes", "no"]) == "yes":
        name = person
        break
go_to(start)
say(f"It is {name}.")
""",
    ),
    Family(
        "all_agree",
        (
            "Ask $people whether $ask1. Tell me yes if all of them say yes, otherwise no.",
            "Find out from $people if $ask1. {Answer|Tell me} yes only if everybody says yes, else no.",
        ),
        """
start = get_current_location()
agreed = True
for person, room in $people:
    go_to(room)
    if ask(person, $ask1, ["yes", "no"]) == "no":
        agreed = False
go_to(start)
if agreed:
    say("Yes.")
else:
    say("No.")
""",
    ),
    Family(
        "anybody_agrees",
        (
            "Ask $people whether $ask1. Tell me yes if at least one of them says yes, otherwise no.",
            "Does anybody say that $ask1? Ask $people, and answer me with yes or no.",
        ),
        """
start = get_current_location()
anybody = False
for person, room in $people:
    go_to(room)
    if ask(person, $ask1, ["yes", "no"]) == "yes":
        anybody = True
go_to(start)
if anybody:
    say("Yes.")
else:
    say("No.")
""",
    ),
    Family(
        "ask_in_rooms_of_a_kind",
        (
            "Go to every $word. If somebody is there, ask them whether $ask1. Tell me how many said yes.",
            "Visit all $word_s and ask anybody whom you meet there if $ask1. {Come back and tell|Tell} me how many of them said yes.",
            "In each $word, if there is a person, ask whether $ask1. Report the number of those who say yes to me.",
        ),
        """
start = get_current_location()
count = 0
for room in get_all_rooms():
    if $word in room:
        go_to(room)
        if is_in_room("person"):
            if ask("person", $ask1, ["yes", "no"]) == "yes":
                count += 1
go_to(start)
say(f"{count} said yes.")
""",
    ),
    Family(
        "choices_in_rooms_of_a_kind",
        (
            "Ask one person in each $word $question, $options. Tell me all the answers.",
            "Visit all $word_s and ask the person there $question: $options. Report the answers to me.",
        ),
        """
start = get_current_location()
answers = []
for room in get_all_rooms():
    if $word in room:
        go_to(room)
        answers.append(ask("person", $question, $options))
go_to(start)
say("Answers: " + ", ".join(answers))
""",
    ),
    Family(
        "people_in_rooms",
        (
            "Ask the people in $rooms whether $ask1, if anybody is there, and tell me the places where the answer was yes.",
            "Go to $rooms. Wherever you meet somebody, ask whether $ask1. Tell me in which rooms they said yes.",
        ),
        """
start = get_current_location()
places = []
for room in $rooms:
    go_to(room)
    if is_in_room("person"):
        if ask("person", $ask1, ["yes", "no"]) == "yes":
            places.append(room)
go_to(start)
say("Yes in: " + ", ".join(places))
""",
    ),
    Family(
        "ask_twice",
        (
            "Ask $who1 in $room1 whether $ask1. If so, ask them also whether $ask2. Tell me yes if both answers are yes, and no otherwise.",
            "Find out from $who1 in $room1 if $ask1 and, only if that is so, if $ask2. Tell me yes if both are so, else no.",
        ),
        """
start = get_current_location()
go_to($room1)
answer = ask($who1, $ask1, ["yes", "no"])
if answer == "yes":
    answer = ask($who1, $ask2, ["yes", "no"])
go_to(start)
say(answer)
""",
    ),
    Family(
        "same_answer",
        (
            "Ask $who1 in $room1 and $who2 in $room2 $question, $options. Tell me whether they said the same.",
            "Do $who1 in $room1 and $who2 in $room2 give the same answer when you ask them $question, $options? Tell me yes or no.",
        ),
        """
start = get_current_location()
go_to($room1)
first = ask($who1, $question, $options)
go_to($room2)
second = ask($who2, $question, $options)
go_to(start)
if first == second:
    say("Yes, they said the same.")
else:
    say("No, they did not say the same.")
""",
    ),
)
