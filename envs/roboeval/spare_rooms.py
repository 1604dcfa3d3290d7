"""Rooms that a world has beside those of its task, so that a program that goes everywhere goes astray.

They are rooms of other tasks: a program cannot tell them from the rooms of its own task by their names alone.
"""

from __future__ import annotations

import random

from envs.roboeval.reference_world import words

ROOMS = tuple(
    room.strip()
    for room in """
    aisle 1, aisle 2, aisle 3, amber cabinet, ape house, aquarium, armour hall, arrival lounge, atelier, attic,
    auditorium, aviary, bakery, balcony, ballroom, banquet room, barn, battery room, bear den, bell tower,
    bicycle cellar, bindery, blue cabin, boathouse, boiler room, bottling hall, brewery, bridge, cabin 1, cabin 2,
    canteen, cellar, chapel, choir room, cloakroom, clubhouse, coin room, cold store, concert hall, conservatory,
    cooperage, corridor 1, corridor 2, corridor 4, costume desk, counting house, courtyard, crew lounge, crypt,
    dance studio, darkroom, depot, dining saloon, dormitory 1, dormitory 2, dungeon, dye house, east shelter,
    engine room, entrance, forge, foyer, framing shop, front gate, gallery 1, gallery 2, garage, garden shed, gate 1,
    gate 2, gate 3, generator hall, gift shop, greenhouse, guest house, gym, hall 1, hall 2, hallway, hangar 1,
    hangar 2, hayloft, honey room, instrument room, interview room, jam kitchen, kiln room, kindergarten, kitchen,
    laboratory, lantern loft, laundry, lawn, library, lighthouse, linen room, loading dock, locker A, locker B, lodge,
    machine hall, map room, meadow, mill, mosaic hall, music shop, north wing, nursery, nurses' station, observatory,
    office 1, office 2, optics cabinet, orchard, organ loft, paint locker, paint shop, pantry, parlour, party room,
    pathology room, pavilion, penguin pool, periodicals room, pharmacy, pier, pit lane, playroom, porcelain cabinet,
    porter's lodge, practice room, print room, prop room, pump house, radio room, ramparts, reading room,
    reception desk, red cabin, rehearsal room, reptile house, restoration room, roof deck, roof garden, rose arbour,
    salon, sauna, sawmill, scullery, seminar hall, server room, shop, smithy, sound booth, south wing, spa hall,
    stable, stadium, stage, steam bath, stock room, storage hall, storeroom 1, storeroom 2, studio, sun deck,
    sun room, supply closet, swimming pool, tack room, tailor shop, tannery, tent 1, tent 2, terrace, ticket booth,
    tool shed, tower, treatment room, vault, veranda, waiting area, ward 1, ward 2, ward 3, west shelter, workshop,
    yard
    """.replace("\n", " ").split(",")
)


def spare_rooms(text: str, number: int) -> list[str]:
    """So many of them, which share no word with the text of a task; always the same ones for it."""
    taken = {*words(text)}
    free = [room for room in ROOMS if taken.isdisjoint(words(room))]
    random.Random(text).shuffle(free)
    return free[:number]
