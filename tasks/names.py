"""The names of places: real words, none shared between the splits, each with what such a place does."""

from collections.abc import Mapping
from typing import NamedTuple


class Name(NamedTuple):
    """A place's name, and what it does without saying the name."""

    word: str
    about: str


def parse_names(text: str) -> tuple[Name, ...]:
    """The names of a text: a line `word: what it does` each."""
    return tuple(Name(*(part.strip() for part in line.split(":"))) for line in text.strip().splitlines())


NAMES: Mapping[str, tuple[Name, ...]] = {
    "train": parse_names(
        """
        fleet: looks after the cars and vans
        travel: books the journeys
        kitchen: cooks for everyone
        garden: keeps the lawns and beds
        library: lends the books
        printing: makes the posters and leaflets
        parking: runs the car parks
        laundry: washes the linen
        security: watches the doors
        cleaning: keeps the floors clean
        catering: serves at events
        training: holds the courses
        housing: rents out the flats
        shipping: sends the parcels
        storage: keeps the stock
        heating: keeps the rooms warm
        lighting: changes the bulbs
        plumbing: mends the pipes
        roofing: mends the roofs
        music: plans the concerts
        theater: puts on the plays
        tennis: runs the courts
        swimming: runs the pool
        harbor: handles the boats
        airport: handles the flights
        station: handles the trains
        market: rents out the stalls
        bakery: bakes the bread
        butcher: sells the meat
        dairy: makes the cheese
        grocery: sells the vegetables
        pharmacy: hands out the medicine
        clinic: treats the patients
        dental: fixes the teeth
        school: teaches the children
        nursery: minds the small children
        museum: shows the collection
        gallery: hangs the pictures
        archive: files the old papers
        radio: broadcasts the news
        cinema: shows the films
        forest: fells the trees
        orchard: picks the apples
        winery: presses the grapes
        stable: feeds the horses
        ferry: crosses the river
        taxi: drives people home
        courier: rides with urgent letters
        postal: sorts the mail
        tools: lends drills and ladders
        """
    ),
    "validation": parse_names(
        """
        canteen: makes the lunches
        lobby: greets the visitors
        mining: digs the ore
        fishing: brings in the catch
        hotel: lets rooms by the night
        hostel: lets beds by the night
        camping: lets pitches for tents
        skiing: runs the lifts
        energy: sells the power
        water: fills the tanks
        waste: empties the bins
        timber: saws the planks
        bakehouse: bakes the cakes
        jetty: moors the boats
        chapel: rings the bells
        arcade: rents out the shops
        barracks: feeds the recruits
        depot: parks the buses
        engraving: cuts the signs
        foundry: casts the iron
        glazing: fits the windows
        hatchery: raises the trout
        masonry: lays the stone
        paddock: grazes the ponies
        quarry: breaks the rock
        rowing: lends the oars
        sawmill: cuts the logs
        tannery: cures the hides
        upholstery: covers the chairs
        weaving: works the looms
        apiary: keeps the bees
        bindery: binds the magazines
        boatyard: hires out the canoes
        carpentry: builds the shelves
        crossing: lowers the barriers
        distillery: bottles the spirits
        embassy: stamps the visas
        fairground: rents out the carousels
        fleece: shears the sheep
        grotto: lights the caves
        herbarium: presses the plants
        icehouse: delivers the ice
        lido: rents out the deckchairs
        mint: strikes the coins
        monastery: copies the scores
        puppetry: carves the marionettes
        rectory: keeps the parish books
        silo: weighs the harvest
        """
    ),
    "heldout": parse_names(
        """
        workshop: repairs the machines
        brewery: brews the beer
        castle: guides the tourists
        temple: receives the pilgrims
        island: looks after the lighthouse
        mountain: keeps the huts
        village: runs the town hall
        office: orders pens and desks
        factory: builds the engines
        research: runs the experiments
        legal: reads the contracts
        press: answers the journalists
        design: draws the plans
        events: organises the fairs
        rental: lends the equipment
        repair: mends the bicycles
        aviary: breeds the birds
        bazaar: sells the carpets
        canal: opens the locks
        cellar: stores the wine
        choir: rehearses the songs
        cottage: hosts the guests
        creamery: churns the butter
        ceramics: fires the pots
        cycling: plans the tours
        drama: coaches the actors
        estate: manages the land
        florist: ties the bouquets
        forge: shoes the horses
        glacier: leads the hikes
        granary: dries the grain
        greenhouse: grows the tomatoes
        guild: trains the apprentices
        hangar: services the planes
        jewelry: sets the stones
        kennel: boards the dogs
        lagoon: farms the oysters
        meadow: cuts the hay
        observatory: points the telescopes
        optics: grinds the lenses
        pottery: glazes the bowls
        prairie: tends the bison
        reservoir: holds back the river
        sailing: lends the yachts
        tailor: alters the suits
        vineyard: prunes the vines
        zoology: counts the animals
        tramway: repairs the trams
        """
    ),
}
