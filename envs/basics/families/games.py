"""Games, races and contests that go step by step."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import NAMES, Source


@family(1)
def light_switches(s: Source) -> Draft:
    return draft(
        "lamps_on|toggle_lamps|lights_after",
        "n|lamps|count: int, presses|switched|buttons: list[int] -> list[int]",
        [
            "There are $n lamps with the numbers 0 to $n - 1, and all are off. Each number in $presses is the number "
            "of a lamp that is switched on if it is off, and off if it is on. Return a list of the lamps that are on "
            "at the end, in ascending order.",
            "Return a list of the numbers from 0 to $n - 1 that occur an odd number of times in $presses, in ascending "
            "order.",
        ],
        "return [lamp for lamp in range($n) if $presses.count(lamp) % 2 == 1]",
        lambda: ((n := s.number(1, 6)), s.ints(0, n - 1, 0, 8)),
        [(0, []), (3, []), (2, [1, 1]), (3, [2, 0, 2, 2])],
    )


@family(3)
def stack_machine(s: Source) -> Draft:
    word, what, op = s.pick(
        ("add", "sum", "+"), ("sub", "difference (lower minus upper)", "-"), ("mul", "product", "*")
    )
    return draft(
        "run_stack|stack_machine|process_tokens",
        "tokens|program|items: list -> list[int]",
        [
            "Go through $tokens with an empty stack. A number is put on top of it; the text '$word' takes the two top "
            "numbers away and puts their $what there instead. Return the stack as a list, the top at the end. There "
            "are always two numbers.",
            "Process the list $tokens: append numbers to a list, and on '$word' replace the last two numbers of that "
            "list by their $what. Return the list. It has at least two items whenever '$word' comes.",
        ],
        """
        stack = []
        for token in $tokens:
            if token == "$word":
                last = stack.pop()
                stack.append(stack.pop() $op last)
            else:
                stack.append(token)
        return stack
        """,
        lambda: s.pick(
            ([s.number(1, 9), s.number(1, 9), word],),
            ([s.number(1, 9), s.number(1, 9), s.number(1, 9), word, word],),
            ([s.number(1, 9), s.number(1, 9), word, s.number(1, 9)],),
            (s.ints(1, 9, 0, 4),),
        ),
        [([],), ([4],), ([7, 2, word, 3, word],)],
        word=word,
        what=what,
        op=op,
    )


@family(2)
def dice_race(s: Source) -> Draft:
    goal = s.number(10, 25)
    return draft(
        "throws_to_goal|turns_needed|reach_field",
        "throws|dice|steps: list[int] -> int",
        [
            "A piece begins at field 0 and moves forward by each number in $throws. Return after how many throws it is "
            "at field $goal or further, or $none if it never gets there.",
            "Add up $throws from the left. Return how many numbers are needed until the sum is at least $goal, and "
            "$none if the sum of all is smaller.",
        ],
        """
        field = 0
        for turn, steps in enumerate($throws, 1):
            field += steps
            if field >= $goal:
                return turn
        return $none
        """,
        lambda: (s.ints(1, 6, 0, 9),),
        [([],), ([goal],), ([goal - 1, 1],), ([goal - 1],)],
        goal=goal,
        none=s.pick(-1, 0, None),
    )


@family(2)
def circle_game(s: Source) -> Draft:
    k = s.number(2, 4)
    return draft(
        "last_remaining|counting_out|who_stays",
        "players|names|children: list[str] -> str",
        [
            "The players stand in a circle. Counting begins with the first one, every $nth player leaves, and counting "
            "goes on behind that player until one is left. Return the one who is left. $players is not empty.",
            "Do this $turns: move the first one of the list $players to its end. Then remove the one who is first. "
            "Repeat both until a single player remains, and return that player. $players is not empty.",
        ],
        """
        circle = list($players)
        place = 0
        while len(circle) > 1:
            place = (place + $less) % len(circle)
            circle.pop(place)
        return circle[0]
        """,
        lambda: (s.few(NAMES, 1, 7),),
        [(["Ann"],), (["Ann", "Bob"],), (["Ann", "Bob", "Cora", "Dan", "Eva"],)],
        less=k - 1,
        turns={2: "once", 3: "twice", 4: "three times"}[k],
        nth={2: "second", 3: "third", 4: "fourth"}[k],
    )


@family(2)
def rock_paper(s: Source) -> Draft:
    a, b, c = s.pick(("rock", "scissors", "paper"), ("fire", "grass", "water"), ("cat", "mouse", "cheese"))
    return draft(
        "round_winner|who_wins|decide_round",
        "first|left|mine: str, second|right|other: str -> int",
        [
            "In a game, '$a' beats '$b', '$b' beats '$c', and '$c' beats '$a'. Return 1 if the choice $first beats "
            "$second, 2 if $second beats $first, and 0 if they are equal.",
            "Two players choose $first and $second. The rules are: '$a' wins against '$b', '$b' against '$c', '$c' "
            "against '$a'. Return the number of the winner, 1 or 2, or 0 for equal choices.",
        ],
        """
        if $first == $second:
            return 0
        beats = {"$a": "$b", "$b": "$c", "$c": "$a"}
        return 1 if beats[$first] == $second else 2
        """,
        lambda: (s.pick(a, b, c), s.pick(a, b, c)),
        [(a, b), (b, a), (c, c), (c, a), (b, c), (a, c)],
        a=a,
        b=b,
        c=c,
    )


@family(2)
def tournament_rounds(s: Source) -> Draft:
    k = s.number(2, 5)
    return draft(
        "rounds_needed|knockout_rounds|tournament_rounds",
        "teams|players|n: int -> int",
        [
            "In each round of a tournament the teams play in groups of $k, and one team of each group goes on; a last "
            "group may be smaller. Return how many rounds $teams teams need until one is left. $teams is at least 1.",
            "Replace $teams by $teams divided by $k, rounded up, until it is 1. Return how often that is done. It is "
            "at least 1 at the beginning.",
        ],
        """
        rounds = 0
        while $teams > 1:
            $teams = -(-$teams // $k)
            rounds += 1
        return rounds
        """,
        lambda: (s.number(1, 100),),
        [(1,), (k,), (k + 1,), (k * k,)],
        k=k,
    )


@family(2)
def jumps_to_end(s: Source) -> Draft:
    return draft(
        "jump_out|steps_to_escape|follow_jumps",
        "jumps|offsets|board: list[int] -> int",
        [
            "Begin at index 0 of $jumps. The number at the current index tells by how many places to jump to the "
            "right. Return how many jumps lead out of the list. All numbers are positive.",
            "Add to a position, which is 0 at first, the positive number at that position of $jumps until it lies "
            "behind the end. Return the number of additions.",
        ],
        """
        position = count = 0
        while position < len($jumps):
            position += $jumps[position]
            count += 1
        return count
        """,
        lambda: (s.ints(1, 4, 0, 9),),
        [([],), ([5],), ([1, 1, 1],)],
    )


@family(2)
def drop_lowest(s: Source) -> Draft:
    return draft(
        "drop_lowest|eliminate_last|next_round",
        "votes|scores|results: dict[str, int] -> dict[str, int]",
        [
            "Everybody with the lowest number of votes leaves. Return a new dictionary with the others and their "
            "numbers from $votes, which is not empty.",
            "Return a copy of the non-empty dictionary $votes without the entries that have its smallest value.",
        ],
        """
        lowest = min($votes.values())
        return {name: n for name, n in $votes.items() if n > lowest}
        """,
        lambda: (s.table(0, 5, 1, 5),),
        [({"Ann": 1},), ({"Ann": 1, "Bob": 1, "Cora": 2},)],
    )


@family(3)
def score_with_bonus(s: Source) -> Draft:
    bonus = s.number(2, 10)
    return draft(
        "streak_score|quiz_score|score_with_bonus",
        "answers|hits|results: list[bool] -> int",
        [
            "Every right answer (True) in $answers gives 1 point, and it gives $bonus more points if the answer "
            "directly before it was right too. Return the sum of the points.",
            "Count 1 for each True in $answers and another $bonus for each True that follows a True immediately. "
            "Return the total.",
        ],
        """
        score = 0
        before = False
        for answer in $answers:
            if answer:
                score += 1 + ($bonus if before else 0)
            before = answer
        return score
        """,
        lambda: (s.some([True, True, False], 0, 7),),
        [([],), ([True, True],), ([True, False, True],)],
        bonus=bonus,
    )


@family(2)
def passing_the_parcel(s: Source) -> Draft:
    return draft(
        "who_has_ball|follow_gifts|trace_parcel",
        "gives|table|passes: dict[str, str], start|first|who: str -> str",
        [
            "The dictionary $gives tells for some people to whom they pass the ball. $start has it first, and it is "
            "passed on until somebody has it who is no key of $gives. Return that person. It never goes in a circle.",
            "Look up $start in $gives, then the result, and so on until a name is no key of it. Return this last name. "
            "There are no circles.",
        ],
        """
        while $start in $gives:
            $start = $gives[$start]
        return $start
        """,
        lambda: (dict(zip(p := s.few(NAMES, 2, 6), p[1:], strict=False)), s.pick(*p)),
        [({}, "Ann"), ({"Ann": "Bob"}, "Ann"), ({"Ann": "Bob"}, "Bob")],
    )
