"""Correct programs for shipped instructions, written in another way than their references: other names, loops, words,
and another order where the instruction leaves it open."""

from __future__ import annotations

VARIANTS: list[tuple[str, str]] = [
    (
        "fetch-01",
        """
        go_to("the workshop")
        pick("the torque wrench")
        go_to("start_loc")
        place("the torque wrench")
        """,
    ),
    (
        "fetch-02",  # the other place first, other words
        """
        home = get_current_location()
        for spot in ("garden shed", "greenhouse"):
            go_to(spot)
            if is_in_room("watering can"):
                pick("watering can")
                go_to(home)
                place("watering can")
                return
        go_to(home)
        say("I could not find the watering can: not in the greenhouse, not in the shed.")
        """,
    ),
    (
        "fetch-03",
        """
        here = get_current_location()
        carried = 0
        while carried < 3:
            go_to("storage hall")
            pick("folding chairs")
            go_to(here)
            place("folding chairs")
            carried = carried + 1
        """,
    ),
    (
        "fetch-04",  # the options the other way round
        """
        start = get_current_location()
        go_to("reception desk")
        if ask("clerk", "Has somebody returned the key of the archive?", ["no", "yes"]) == "no":
            go_to(start)
            say("The archive key is still out")
        else:
            pick("key")
            go_to(start)
            place("key")
        """,
    ),
    (
        "fetch-06",
        """
        home = get_current_location()
        go_to("print room")
        if ask("Priya", "Can you spare A3 or A4 paper?", ["A4", "A3"]) == "A3":
            wanted = "A3 paper"
        else:
            wanted = "A4 paper"
        go_to("supply closet")
        pick(wanted)
        go_to(home)
        place(wanted)
        """,
    ),
    (
        "fetch-07",  # the globe first
        """
        start = get_current_location()
        absent = ""
        for item in ["globe", "atlas"]:
            go_to("map room")
            if not is_in_room(item):
                absent += item + " "
                continue
            pick(item)
            go_to(start)
            place(item)
        go_to(start)
        say("Missing: " + absent if absent else "Nothing is missing.")
        """,
    ),
    (
        "fetch-08",
        """
        home, total = get_current_location(), 0
        stores = [r for r in get_all_rooms() if r.startswith("storeroom")]
        for store in reversed(stores):
            go_to(store)
            if is_in_room("fire blanket"):
                total += 1
                pick("fire blanket")
                go_to(home)
                place("fire blanket")
        go_to(home)
        say("I found " + str(total) + " blankets")
        """,
    ),
    (
        "deliver-02",  # tells before it puts the violin down
        """
        go_to("rehearsal room")
        pick("violin")
        go_to("stage")
        say("Everyone, this violin is in tune!")
        place("violin")
        """,
    ),
    (
        "deliver-05",
        """
        go_to("bakery")
        pick("birthday cake")
        go_to("party room")
        there = is_in_room("Ilse")
        if not there:
            go_to("cold store")
        place("birthday cake")
        if not there:
            go_to("start_loc")
            say("I left the cake in the cold store since Ilse was not there.")
        """,
    ),
    (
        "deliver-07",  # the paper first
        """
        for room, thing in [("drafting studio", "tracing paper"), ("copy shop", "toner cartridge")]:
            go_to("stock room")
            pick(thing)
            go_to(room)
            place(thing)
        """,
    ),
    (
        "inspect-01",
        """
        go_to("boiler room")
        found = is_in_room("a puddle")
        go_to("start_loc")
        say("Yes, there is a puddle" if found else "No puddle, the boiler does not leak")
        """,
    ),
    (
        "inspect-03",  # other order of the rooms, other order in the message
        """
        start = get_current_location()
        have = []
        for name in ["Lima", "Oslo", "Cairo"]:
            go_to(name)
            if is_in_room("spare monitor"):
                have += [name]
        go_to(start)
        if len(have) == 0:
            say("None of the meeting rooms has a spare monitor")
        else:
            say("Rooms with a monitor: " + ", ".join(have))
        """,
    ),
    (
        "inspect-05",
        """
        start = get_current_location()
        number = 0
        for ward in [1, 2, 3, 4]:
            go_to("ward " + str(ward))
            if is_in_room("wheelchair"):
                number = ward
                break
        go_to(start)
        say("It must be in use" if number == 0 else "The wheelchair stands in ward number " + str(number))
        """,
    ),
    (
        "inspect-07",  # looks into all three rooms
        """
        start = get_current_location()
        count = 0
        for room in ["sawmill", "paint shop", "kiln room"]:
            go_to(room)
            if is_in_room("fire extinguisher"):
                count += 1
        go_to(start)
        if count == 3:
            say("yes")
        else:
            say("no")
        """,
    ),
    (
        "survey-01",
        """
        start = get_current_location()
        go_to("reading room")
        answers = [ask(name, "Have you returned your books?", ["No", "Yes"]) for name in ("Sun", "Lea", "Marco")]
        go_to(start)
        say("Books were returned by " + str(answers.count("Yes")))
        """,
    ),
    (
        "survey-03",
        """
        start = get_current_location()
        blue = green = grey = 0
        for who, where in [("Nina", "shop"), ("Rosa", "atelier"), ("Pavel", "dye house")]:
            go_to(where)
            choice = ask(who, "Which colour do you want for the new curtains?", ["blue", "green", "grey"])
            if choice == "blue":
                blue += 1
            elif choice == "green":
                green += 1
            else:
                grey += 1
        go_to(start)
        top = max(blue, green, grey)
        say("The colour is " + ("blue" if blue == top else "green" if green == top else "grey"))
        """,
    ),
    (
        "survey-04",
        """
        start = get_current_location()
        total = 0
        for room in ["conservatory", "terrace", "lounge"]:
            go_to(room)
            total = total + int(ask("guests", "From 1 to 5, how comfortable are the sofas?", ["1", "2", "3", "4", "5"]))
        go_to(start)
        say("On average " + str(round(total / 3, 1)))
        """,
    ),
    (
        "survey-08",  # the other pilot first
        """
        go_to("crew lounge")
        routes = {}
        for pilot in ["Teodor", "Amara"]:
            routes[pilot] = ask(pilot, "Do you want to fly north or south?", ["north", "south"])
        go_to("tower")
        if routes["Amara"] != routes["Teodor"]:
            say("The pilots differ about the route.")
        else:
            say("They want the same route: " + routes["Amara"])
        """,
    ),
    (
        "relay-01",
        """
        start = get_current_location()
        go_to("bindery")
        if not is_in_room("Karim"):
            go_to(start)
            say("Karim was not there, I did not find him")
            return
        say("The glue has arrived")
        """,
    ),
    (
        "relay-02",
        """
        go_to("bridge")
        time_left = ask("captain", "How many minutes until we sail?", ["10", "20", "30"])
        go_to("dining saloon")
        say("We sail in " + time_left + " minutes")
        go_to("sun deck")
        say("We sail in " + time_left + " minutes")
        """,
    ),
    (
        "relay-04",  # other order of the cabins
        """
        start = get_current_location()
        go_to("green cabin")
        say("Training starts at 5")
        go_to("red cabin")
        say("Training starts at 5")
        go_to("blue cabin")
        say("Training starts at 5")
        go_to(start)
        say("All the teams know about it")
        """,
    ),
    (
        "relay-08",
        """
        go_to("tailor shop")
        if is_in_room("Mr. Adeyemi"):
            accepted = ask("Mr. Adeyemi", "Do you accept the price?", ["Yes", "No"])
            go_to("counting house")
            if accepted == "Yes":
                say("Farah, Mr. Adeyemi accepts the price")
            else:
                say("Farah, Mr. Adeyemi does not accept the price")
        else:
            go_to("counting house")
            say("Farah, Mr. Adeyemi was out")
        """,
    ),
    (
        "errand-01",
        """
        def carry(thing, source):
            go_to(source)
            pick(thing)
            go_to("barn")
            place(thing)

        go_to("hayloft")
        if is_in_room("pulley"):
            carry("pulley", "hayloft")
            return
        go_to("yard")
        answer = ask("farmer", "May we use the rope?", ["Yes", "No"])
        if answer == "Yes":
            carry("rope", "stable")
        """,
    ),
    (
        "errand-03",
        """
        go_to("periodicals room")
        destination = {"Yes": "periodicals room", "No": "basement"}[
            ask("librarian", "Do you need the laminator here today?", ["Yes", "No"])
        ]
        go_to("repair bench")
        pick("laminator")
        go_to(destination)
        place("laminator")
        """,
    ),
    (
        "errand-08",
        """
        go_to("banquet room")
        if is_in_room("guest") and ask("guest", "May the tray be taken away?", ["no", "yes"]) == "no":
            return
        pick("tray")
        go_to("scullery")
        place("tray")
        """,
    ),
    (
        "patrol-02",
        """
        start = get_current_location()
        opened = [n for n in range(5, 0, -1) if not go_to(f"corridor {n}") and is_in_room("open window")]
        go_to(start)
        say(f"Number of corridors with an open window: {len(opened)}")
        """,
    ),
    (
        "patrol-06",  # another order of the rooms
        """
        for place_name in ["bell tower", "chapel", "crypt"]:
            go_to(place_name)
            if is_in_room("person"):
                if ask("person", "Do you have a permit?", ["Yes", "No"]) != "Yes":
                    say("You have no permit, you must leave.")
        """,
    ),
    (
        "patrol-05",
        """
        start = get_current_location()
        smoke = ""
        for hall in ["generator hall", "battery room", "server room"]:
            go_to(hall)
            if is_in_room("smoke"):
                smoke += hall + ", "
        if not smoke:
            go_to(start)
            return
        go_to("porter's lodge")
        say("Smoke: " + smoke)
        """,
    ),
    (
        "tidy-02",
        """
        tools = ["pliers", "hammer", "saw"]
        for i in range(len(tools)):
            go_to("meadow")
            if is_in_room(tools[i]):
                pick(tools[i])
                go_to("tool shed")
                place(tools[i])
        """,
    ),
    (
        "tidy-04",
        """
        start = get_current_location()
        crates = 0
        for n in range(3, 0, -1):
            go_to(f"aisle {n}")
            if is_in_room("crate"):
                pick("crate")
                go_to("depot")
                place("crate")
                crates += 1
        go_to(start)
        say("Crates moved: " + str(crates))
        """,
    ),
    (
        "guide-03",
        """
        home = get_current_location()
        go_to("pharmacy")
        say("Here is the pharmacy")
        go_to("linen room")
        say("Here is the linen room")
        go_to("canteen")
        say("Here is the canteen")
        go_to(home)
        """,
    ),
    (
        "inventory-01",
        """
        home = get_current_location()
        go_to("machine hall")
        carts = [f"tool cart {i}" for i in (4, 3, 2, 1)]
        there = len([cart for cart in carts if is_in_room(cart)])
        go_to(home)
        say(f"I counted {there} tool carts")
        """,
    ),
    (
        "inventory-06",
        """
        home = get_current_location()
        more = 0
        for locker in ["locker C", "locker B", "locker A"]:
            go_to(locker)
            more += int(is_in_room("helmet")) - int(is_in_room("vest"))
        go_to(home)
        say("equal" if more == 0 else "helmets" if more > 0 else "vests")
        """,
    ),
    (
        "inventory-09",  # one message instead of a sum in a sentence
        """
        start = get_current_location()
        numbers = []
        for shelter in ["south shelter", "west shelter", "east shelter"]:
            go_to(shelter)
            numbers.append(int(ask("beekeeper", "How many beehives does this shelter have?", ["0", "1", "2"])))
        go_to(start)
        say(str(sum(numbers)))
        """,
    ),
]
"""(id of the row, body of the program)."""
