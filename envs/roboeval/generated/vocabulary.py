"""Words of the generated robot instructions: places, things, people, questions, messages.

Programs have to copy names from the instruction, so there are many of them: a small list would be learnt by heart.
"""

from __future__ import annotations

ROOMS = """
allotment|amphitheatre|antechamber|apiary|apple cellar|arcade|archery range|arsenal|art room|assembly hall|atrium|
auction room|bakehouse|balcony|ballroom|bar|barracks|basement flat|bathhouse|bay window|beach hut|bell room|
billiard room|blacksmith's|boat shed|boiler house|bookshop|bottling room|box office|breakfast room|brewery|
briefing room|bunk room|bus depot|butcher's|butterfly house|byre|cable car station|cafeteria|camp kitchen|canal lock|
candle shop|car park|carport|carriage house|casino|catering tent|cave|cellar bar|changing room|chart room|checkroom|
cheese dairy|chemistry lab|chicken coop|cider press|cinema|classroom|clinic|coal shed|coffee corner|cold room|
colonnade|compost yard|computer room|concert hall|conference room|control room|corn loft|counting room|courtroom|
crane cabin|craft room|creamery|crew mess|customs office|cutting room|dance studio|dark room|day nursery|debating hall|
delivery bay|dental surgery|design studio|dining hall|dispensary|distillery|dockyard|document vault|dog kennel|
drawing room|dressing room|drill hall|drying loft|duck pond|east gate|editing room|electrical room|embroidery room|
entrance hall|examination room|exhibition hall|factory floor|farmhouse|fencing hall|fern garden|ferry landing|
filing room|filter house|fire station|fish market|fitness room|fitting room|flower stall|foundry|fountain|front desk|
fruit store|fuel depot|games room|garden house|gatehouse|generator room|glasshouse|goods lift|grain silo|granary|
graphics studio|grotto|guard room|guest room|gun room|gymnasium|hair salon|harness room|hat shop|hay barn|head office|
heating cellar|helipad|herb room|hop kiln|horse box|hotel lobby|ice house|infirmary|information desk|inner courtyard|
instrument room|interview room|island hut|jetty|jewellery shop|joinery|judges' box|juice bar|key room|kindergarten|
knitting room|laboratory|lakeside cabin|lamp shop|language lab|lantern room|larder|laundry room|law library|
lecture hall|library|lifeboat house|lift lobby|linen room|locker room|lodge|log cabin|loom room|lost property office|
lower deck|luggage room|machine shop|mail room|maintenance shed|malt house|manor|market hall|marquee|master bedroom|
meat locker|media room|medicine store|milking parlour|mill pond|minibus|mirror hall|model room|monastery garden|
motor pool|mountain hut|mushroom cellar|music room|news desk|north tower|nursery garden|oast house|office kitchen|
oil store|old school|open kitchen|orange grove|orchestra pit|outhouse|packing hall|paddock|paint shop|palm house|
pantry|parcel counter|parking deck|parlour|pasture|pastry kitchen|pavilion|peat shed|pharmacy|phone booth|photo studio|
physics lab|picnic area|piggery|pilot house|pine grove|planetarium|playground|plumber's|police desk|porch|post room|
potting shed|poultry yard|powder room|press room|prep kitchen|print works|projection booth|props store|puppet theatre|
quarry|quiet room|rear gate|record library|recording studio|recovery room|refectory|rehearsal stage|repair shop|
reptile room|rest area|rice store|riding hall|roof garden|rose garden|rowing club|sail loft|salt store|sample room|
sand pit|sauna hut|saw pit|scale house|school kitchen|scoreboard|sculpture garden|seed bank|service desk|sheep fold|
shipping office|shoe shop|shooting range|side chapel|signal box|silk room|silver vault|ski room|sleeping car|slipway|
smokehouse|snack bar|soap works|south tower|spare room|spice store|squash court|staff room|stamp room|stationery room|
steam laundry|stone yard|study|summer kitchen|sun terrace|sunken garden|supply room|surgery|swing bridge|tackle shop|
tailor's|tasting room|taxi stand|tea room|telegraph office|temple|test bench|textile store|ticket office|tile works|
timber yard|toll house|tool room|toy shop|track shed|training room|transformer house|tram stop|treasury|trophy room|
tunnel|turbine hall|turf store|upper deck|utility room|vegetable garden|vestry|viewing platform|village hall|
vinegar cellar|waiting room|walled garden|warehouse|wash house|watch room|water tower|wax museum|weigh station|
well house|west gate|wheelhouse|wine cellar|winter garden|woodland hut|wool store|writing room|yoga studio|zinc works
"""
THINGS = """
accordion bag|adhesive tape|air filter|alarm clock|almanac|anchor chain|apron|arrow|ashtray|axe|backgammon board|
badge|bag of flour|ball of wool|balloon|bamboo pole|band saw|banjo|barometer|basin|basket|bath mat|battery|beach ball|
bedspread|bell|belt|bench|bicycle lamp|bin bag|binder|birdcage|biscuit tin|blackboard|blender|bolt cutter|bonnet|
bookend|boomerang|bow tie|bowl|box of chalk|box of nails|bracelet|bread knife|bridle strap|broom|bucket of sand|bugle|
bulletin|bunsen burner|cable drum|cake stand|calculator|calendar|camera|camping stove|candlestick|canoe paddle|
can opener|car jack|cardigan|carpet|casserole|catalogue|cello|ceramic pot|charging cable|cheese board|chess set|
chisel|cigar box|clarinet|clamp|clipboard|coat hanger|coffee mill|coil of wire|colander|comb|compass|concertina|
copper kettle|cork|corkscrew|cotton bag|crate|cricket bat|crowbar|crutch|cushion|cymbal|dartboard|deck chair|
desk lamp|detergent|diary|doll|door handle|doormat|drawing board|drill|drum|dumbbell|dustpan|easel|
egg timer|elbow pad|electric fan|emerald ring|envelope|eraser|espresso cup|extension cord|face mask|fan belt|
feather duster|file|film reel|fire bucket|fishing net|flashlight|flask|floor polish|flower pot|flute|folder|football|
footstool|fountain pen|frying pan|funnel|fur hat|fuse box|garden hose|garlic press|gas bottle|gavel|gift box|
glass jug|globe|glove|glue gun|gold coin|golf ball|gong|grater|grease gun|guitar|hacksaw|hair dryer|hammock|
handcart|handkerchief|hand mirror|harmonica|hat stand|hedge trimmer|helmet|herb jar|high chair|hole punch|
honey pot|hook|horn|hot water bottle|hourglass|humidifier|ice bucket|ice scraper|inkwell|iron|ivory comb|jacket|
jar of jam|jigsaw|jug|juicer|jump rope|kayak|key ring|keyboard|kite|knapsack|ladle|lampshade|lantern|laptop|lasso|
lawn mower|leather strap|ledger|letter|letter opener|level|life jacket|light bulb|lock|logbook|loudspeaker|
magazine|magnet|magnifying glass|mallet|mandolin|map|marble|mattress|measuring tape|medal|megaphone|menu|metronome|
microscope|milk can|milk jug|mixing bowl|modem|mortar|mousetrap|mouth organ|mug|muffin tray|nail file|napkin|
necklace|needle case|newspaper|notebook|notice board|nutcracker|oar|oboe|oil drum|oil painting|ointment|oven glove|
overall|package|padlock|paint brush|paint pot|paper clip|parachute|parcel|passport|pencil case|pendulum|pepper mill|
perfume|petrol can|photo album|piano stool|picnic basket|picture frame|pillow|pipe wrench|pitchfork|plank|
plate|pliers box|plough|plunger|pocket knife|poncho|porcelain vase|poster|postcard|potato sack|power bank|pram|
prescription|printer cable|prism|pulley|purse|puzzle|quilt|radio|rain coat|rake|razor|record player|
recipe book|red flag|remote control|ribbon|ring binder|roll of tape|roof tile|rope ladder|rubber boot|rubber stamp|
rucksack|rug|ruler|saddle bag|safety vest|salad bowl|salt shaker|sandal|sandbag|saucepan|saxophone|scalpel|
scarf|scooter|scraper|screwdriver|scroll|sealing wax|sewing kit|shawl|shoe brush|shovel|shower curtain|
sieve|signal horn|silver spoon|skateboard|sketchbook|ski pole|sledge|sleeping bag|slide rule|slipper|snow shovel|
soap dish|socket set|soldering iron|spade|spanner|spare wheel|spirit level|sponge|spotlight|stamp album|stapler|
statue|steering wheel|stencil|stepladder|stethoscope|stool|stopwatch|straw hat|stretcher|suitcase|sun hat|sunscreen|
surfboard|sword|syringe|syrup|table cloth|tablet|tambourine|tape recorder|tarpaulin|teapot|telephone|tennis racket|
tent|test tube|theatre mask|thermometer|thermos|thimble|thread|ticket roll|tinder box|toaster|toolbox|toothbrush|
torch|towel rail|toy train|traffic cone|tray|tricycle|tripod|trolley|trombone|trowel|trumpet|tuning fork|
typewriter|umbrella stand|vacuum cleaner|varnish|veil|vice|viola|vitamin box|voltmeter|waffle iron|walking stick|
wallet|wardrobe key|washing line|watch|water bottle|water pistol|weather map|wedge|welding mask|wheelbarrow|whisk|
whistle|wig|wind chime|window key|wine glass|winter coat|wire brush|wooden spoon|work light|wreath|wrench|wristband|
xylophone|yardstick|yoga mat|zip bag
"""
FIRST_NAMES = """
Abel|Adele|Agnes|Ahmed|Aiko|Alba|Alma|Amara|Anders|Anouk|Arno|Astrid|Aurel|Ayla|Basil|Bea|Bianca|Bodil|Boris|Brigid|
Carla|Carlos|Cem|Cleo|Clara|Conrad|Cyril|Dalia|Daniel|Darya|Diego|Dina|Dorian|Ebba|Edgar|Elif|Elmar|Elsa|Emil|Enzo|
Erik|Esme|Esther|Etta|Fabio|Faye|Felix|Fiona|Frida|Gaspar|Gerda|Gilda|Gina|Gregor|Gustav|Hakim|Harald|Helga|Henri|
Hiro|Hugo|Ibrahim|Ida|Igor|Ilka|Imani|Inga|Irma|Isak|Ivan|Jada|Jakub|Janne|Jasper|Jelena|Joel|Judith|Julio|Kamal|
Karin|Kasper|Kenji|Kira|Klaus|Lara|Lars|Leo|Liam|Linus|Lotte|Lucia|Ludwig|Luna|Mabel|Magnus|Malik|Mara|Marek|Marta|
Matteo|Maud|Milan|Mila|Mina|Moritz|Nadine|Naomi|Nils|Noor|Nora|Odile|Ole|Olaf|Omar|Osman|Paco|Paula|Pelle|Petra|
Pia|Pilar|Quentin|Ragnar|Rahel|Ramon|Raul|Renata|Rita|Robin|Rolf|Ronja|Rufus|Sana|Sander|Selma|Silas|Simone|Sofia|
Stella|Sven|Tamar|Tarik|Tea|Theo|Thora|Tilo|Tomas|Ulla|Ulrik|Uma|Vera|Vito|Viola|Walter|Xenia|Yara|Yusuf|Zeno|Zita
"""
ROLES = """
accountant|actor|apprentice|architect|assistant|auditor|baker|barber|beekeeper's son|bookseller|brewer|builder|butcher|
butler|captain's mate|carpenter|cashier|chairman|cleaner|coach|conductor|cook|courier|dancer|dentist|detective|diver|
doctor|driver|editor|electrician|engineer|farmer's wife|firefighter|fisherman|florist|forester|glazier|guard|
guide|hairdresser|head nurse|hunter|interpreter|janitor|jeweller|judge|juggler|lawyer|locksmith|magician|mason|mayor|
mechanic|midwife|miller|musician|notary|nurse|painter|pharmacist|photographer's helper|pianist|plumber|poet|postman|
potter|priest|principal|programmer|puppeteer|ranger|reporter|roofer|sailor|sculptor|seamstress|secretary|shepherd|
singer|soldier|surgeon|teacher|trainer|translator|treasurer|waiter|watchmaker|weaver|welder|zookeeper
"""
ROOM_WORDS = """
attic|barn|bath|bay|bedroom|berth|booth|bungalow|bunker|cabin|cage|camp|cellar|chamber|chalet|closet|coop|cottage|court|
cubicle|deck|den|dock|field|floor|garage|garden|gate|greenhouse|hut|kiosk|kitchen|lab|landing|lane|locker|lodge|lounge|
mill|nursery|oven|pen|pier|pit|platform|pond|pool|post|room|salon|shed|shelter|shop|silo|store|studio|suite|tank|
tent|terrace|tower|tunnel|vault|wing|workshop|yard
"""
YES_OR_NO = """
the heating works=Does the heating work?|they need more paper=Do you need more paper?|they have had lunch=Have you had lunch?|
the window is broken=Is the window broken?|they want to come along=Do you want to come along?|the order is complete=Is the order complete?|
they can stay longer=Can you stay longer?|the paint is dry=Is the paint dry?|they like the new lamp=Do you like the new lamp?|
the phone has rung=Has the phone rung?|they feel better=Do you feel better?|the lock has been changed=Has the lock been changed?|
they will work tonight=Will you work tonight?|the water is warm=Is the water warm?|they know the way=Do you know the way?|
the bill has been paid=Has the bill been paid?|they have a driving licence=Do you have a driving licence?|the oven is on=Is the oven on?|
they speak Spanish=Do you speak Spanish?|the lift is repaired=Is the lift repaired?|they have seen the news=Have you seen the news?|
the stock is low=Is the stock low?|they are ready to start=Are you ready to start?|the alarm went off=Did the alarm go off?|
they slept well=Did you sleep well?|the bread is fresh=Is the bread fresh?|they own a bicycle=Do you own a bicycle?|
the noise has stopped=Has the noise stopped?|they agree with the plan=Do you agree with the plan?|the roof leaks=Does the roof leak?|
they want a refund=Do you want a refund?|the plants were watered=Were the plants watered?|they are hungry=Are you hungry?|
the mail has come=Has the mail come?|they can lift heavy boxes=Can you lift heavy boxes?|the floor is wet=Is the floor wet?|
they have signed the form=Have you signed the form?|the cat was fed=Was the cat fed?|they need a break=Do you need a break?|
the printer is out of ink=Is the printer out of ink?|they will vote=Will you vote?|the guests have left=Have the guests left?|
they prefer to sit inside=Do you prefer to sit inside?|the cable is long enough=Is the cable long enough?|
they are cold=Are you cold?|the door was locked=Was the door locked?|they play the piano=Do you play the piano?|
the meeting is over=Is the meeting over?|they have paid the fee=Have you paid the fee?|the soup is too salty=Is the soup too salty?|
they want to swap shifts=Do you want to swap shifts?|the boat is tied up=Is the boat tied up?|they lost an umbrella=Did you lose an umbrella?|
the hall is booked=Is the hall booked?|they trust the new supplier=Do you trust the new supplier?|the test went well=Did the test go well?|
they take sugar=Do you take sugar?|the flowers have arrived=Have the flowers arrived?|they can sing=Can you sing?|
the light flickers=Does the light flicker?|they are on the list=Are you on the list?|the glass is clean=Is the glass clean?
"""
CHOICES = """
colour=which colour they like=Which colour do you like?=red|blue|green|yellow|white|black|purple|brown
drink=which drink they would like=Which drink would you like?=tea|coffee|juice|milk|cocoa|cider|lemonade|water
day=which day suits them=Which day suits you?=Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday
dessert=what they want for dessert=What do you want for dessert?=ice cream|apple pie|pudding|fruit salad|cheese|waffles
size=which size they need=Which size do you need?=small|medium|large
month=in which month they travel=In which month do you travel?=March|April|May|June|September|October
sport=which sport they prefer=Which sport do you prefer?=tennis|rowing|chess|hockey|judo|golf
music=what music they want to hear=What music do you want to hear?=jazz|opera|folk|rock|blues
film=which film they want to see=Which film do you want to see?=the comedy|the western|the thriller|the musical
animal=which animal they find nicest=Which animal do you find nicest?=the owl|the otter|the lynx|the camel|the seal
language=which language they want to learn=Which language do you want to learn?=Greek|Hindi|Polish|Arabic|Danish
transport=how they get home=How do you get home?=by bus|by bike|on foot|by taxi|by tram
fruit=which fruit they want=Which fruit do you want?=an apple|a pear|a plum|a banana|grapes
flower=which flower they would pick=Which flower would you pick?=tulip|rose|lily|daisy|iris
seat=where they want to sit=Where do you want to sit?=front|middle|back
bread=which bread they ordered=Which bread did you order?=rye|wheat|spelt|oat
time=when they want to leave=When do you want to leave?=at noon|at three|at six|at nine
metal=which metal they work with=Which metal do you work with?=iron|copper|zinc|silver
subject=which subject they teach=Which subject do you teach?=history|biology|physics|music
trip=which trip they booked=Which trip did you book?=the desert|the coast|the mountains|the lakes
"""
NUMBERS = """
how many chairs they need=How many chairs do you need?=chairs|how many eggs were laid=How many eggs were laid?=eggs|
how many guests they expect=How many guests do you expect?=guests|how many letters came=How many letters came?=letters|
how many tickets they have left=How many tickets do you have left?=tickets|how many loaves they baked=How many loaves did you bake?=loaves|
how many tiles are broken=How many tiles are broken?=tiles|how many boxes they packed=How many boxes did you pack?=boxes|
how many fish they caught=How many fish did you catch?=fish|how many hours they worked=How many hours did you work?=hours|
how many bulbs are missing=How many bulbs are missing?=bulbs|how many calls they got=How many calls did you get?=calls
"""
MESSAGES = """
the bus leaves in ten minutes|the parcel is at the gate|the meeting has moved to Friday|dinner is served|
the water will be turned off|the paint is still wet|a visitor is waiting outside|the test has been cancelled|
the new rota is on the wall|the lift is out of order|the doors close at eight|the results are in|the car is parked outside|
the bridge is closed|rain is expected|the show begins at seven|the shop is out of bread|the boss wants to see them|
the delivery is late|the parade starts soon|their bicycle has been repaired|the cake is ready|the pool opens at noon|
the power will be cut at five|the train is on time|the library is closed tomorrow|the speaker has arrived|
the key has been found|a storm is coming|their appointment is at four|lunch is ready|the exam starts at nine|
the road has been cleared|the game was won|their order has been shipped|the fire drill begins now|the heating is back on|
the choir meets tonight|the museum is free today|the printer has been fixed|the guests have arrived|the ice is too thin|
the last boat leaves at six|the recording starts now|the prices have changed|the dog has been found|the gate must stay shut|
tea is in the garden|the tour starts at the fountain|the list closes today|the bell will ring twice|
the coach is ill|the match has been put off|the sale starts on Monday|the ladder must be put back|the lights will go out
"""


def listed(text: str) -> list[str]:
    """The entries of one of the lists above, which "|" and line ends separate."""
    return [entry.strip() for entry in text.replace("\n", "|").split("|") if entry.strip()]
