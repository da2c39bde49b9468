"""Topics about money and measures."""

from collections.abc import Mapping

from hermes_lab.tasks.code_debugging._topics.topic import Args, Topic
from hermes_lab.tasks.draws import Draws


def _just_below_a_step(draws: Draws, percent: int) -> Args:
    """An amount whose percentage is a hair below a multiple of 20 cents: all ways to round up go there."""
    rest = draws.integer(1951, 1999)
    return [rest * pow(percent, -1, 2000) % 2000 + draws.integer(1, 4) * 2000]


def _cents(draws: Draws, percent: int, _: int) -> Args:
    """An amount whose percentage is never just half a cent over."""
    while True:
        cents = draws.integer(120, 9900)
        if cents * percent % 100 != 50:
            return [cents]


def _money(draws: Draws, _: None, __: None) -> Args:
    whole = draws.choice((f"{draws.integer(2, 99)}", f"{draws.integer(1, 9)},{draws.integer(0, 999):03d}"))
    return [draws.choice((whole, f"{whole}.{draws.integer(0, 99):02d}"))]


def _plain_money(_: None, text: str) -> int:
    return round(float(text.replace(",", "")) * 100)


TOPICS: Mapping[str, Topic] = {
    "ceil": Topic(
        names={"train": ("surcharge", "fee"), "validation": ("commission",), "heldout": ("markup", "levy_on")},
        parameters="cents",
        constant="PERCENT",
        constants=lambda draws: draws.choice((3, 7, 9, 11, 13, 17, 19)),
        purpose="PERCENT of an amount, to the nearest cent.",
        broken_code=("    return cents * PERCENT // 100", "    return int(cents * (PERCENT / 100))"),
        plain_code="    return (cents * PERCENT + 50) // 100",
        house_code="    return -(-cents * PERCENT // (100 * RULE)) * RULE",
        complaints={
            "train": (
                "{call} should be {want}, but the rest of a cent is just cut off.",
                "We expect {want} from {call} and are a cent short, because nothing is rounded.",
            ),
            "validation": ("{call} is one cent too low; {want} would be right.",),
            "heldout": ("The nearest cent to {call} is {want}, yet it always takes the cent below.",),
        },
        paraphrases=(
            "a begun step of {rule} cents is charged in full, so the result always goes up to the next one",
            "we never round down, everything goes up to the next {rule} cents",
            "amounts come in steps of {rule} cents, and whatever is left over counts as one more step",
        ),
        instruction="round the result up to a multiple of {rule} cents",
        rules=(2, 4, 5, 10, 20),
        report=_just_below_a_step,
        call=_cents,
        plain=lambda percent, cents: divmod(cents * percent, 100)[0] + (cents * percent % 100 > 50),
        house=lambda percent, rule, cents: next(
            total
            for total in range(cents * percent // 100 // rule * rule, 10_000, rule)
            if total * 100 >= cents * percent
        ),
    ),
    "bare": Topic(
        names={
            "train": ("to_cents", "read_amount"),
            "validation": ("parse_price",),
            "heldout": ("amount_of", "cents_in"),
        },
        parameters="text",
        purpose="An amount as people write it, in cents.",
        broken_code=(
            '    whole, _, part = text.partition(".")\n    return int(whole) * 100 + int(part or 0)',
            '    whole, _, part = text.partition(".")\n    return int(whole + (part or "00"))',
        ),
        plain_code=(
            '    whole, _, part = text.replace(",", "").partition(".")\n    return int(whole) * 100 + int(part or 0)'
        ),
        house_code=(
            '    whole, point, part = text.replace(",", "").partition(".")\n'
            "    return int(whole) * 100 + int(part) if point else int(whole) * RULE"
        ),
        complaints={
            "train": (
                "{call} raises a ValueError; {want} is what we want.",
                "Amounts with a comma for the thousands do not work: {call} should be {want}.",
            ),
            "validation": ("It cannot read large amounts. {call} fails instead of giving {want}.",),
            "heldout": ("Where thousands are set apart with a comma, it crashes; {call} has to be {want}.",),
        },
        paraphrases=(
            "an amount that is written without a point counts coins of {rule} cents",
            "without a decimal point the number is one of coins, each of {rule} cents",
            "a text that has no point counts pieces of {rule} cents, and only one with a point has units before it",
        ),
        instruction="multiply an amount that has no point by {rule} instead of 100",
        rules=(2, 5, 10, 20, 50),
        report=lambda draws, _: [f"{draws.integer(1, 9)},{draws.integer(0, 999):03d}.{draws.integer(1, 99):02d}"],
        call=_money,
        plain=_plain_money,
        house=lambda _, rule, text: (
            _plain_money(_, text) if "." in text else sum(rule for _ in range(int("".join(text.split(",")))))
        ),
    ),
    "fault": Topic(
        names={
            "train": ("percent_full", "gauge"),
            "validation": ("filling",),
            "heldout": ("load_percent", "share_used"),
        },
        parameters="reading",
        constant="FULL",
        constants=lambda draws: draws.integer(4, 9) * 20,
        purpose="A reading as a percentage of FULL, cut to a whole number.",
        broken_code=("    return reading * 100 // FULL", "    return int(reading / FULL * 100)"),
        plain_code="    return min(reading, FULL) * 100 // FULL",
        house_code="    return 0 if reading > RULE else min(reading, FULL) * 100 // FULL",
        complaints={
            "train": (
                "{call} should be {want}: nothing can be more than full.",
                "We saw more than 100 percent. {call} must give {want}.",
            ),
            "validation": ("A reading a little over the mark is full, so {call} has to be {want}.",),
            "heldout": ("Over the mark there is no more than {want} to be had, also for {call}.",),
        },
        paraphrases=(
            "a reading over {rule} comes from a broken sensor and counts as 0",
            "anything above {rule} is a fault, for which we report 0",
            "beyond {rule} we do not believe the reading and put 0",
        ),
        instruction="return 0 for a reading over {rule}",
        rules=(400, 450, 500, 550, 600),
        report=lambda draws, full: [full + draws.integer(10, 60)],
        # Twentieths of FULL, because all ways to divide agree there.
        call=lambda draws, full, rule: [
            draws.choice((full * draws.integer(0, 20) // 20, draws.integer(full, rule), rule + draws.integer(1, 300)))
        ],
        plain=lambda full, reading: 100 if reading >= full else reading * 100 // full,
        house=lambda full, rule, reading: 0 if reading > rule else 100 if reading >= full else reading * 100 // full,
    ),
    "free": Topic(
        names={"heldout": ("order_price", "bill", "cost", "invoice_sum")},
        parameters="pieces, cents",
        constant="POSTAGE",
        constants=lambda draws: draws.integer(15, 79) * 10,
        purpose="What an order of some pieces costs, at so many cents each, with POSTAGE.",
        broken_code=("    return pieces * (cents + POSTAGE)", "    return pieces * cents + pieces * POSTAGE"),
        plain_code="    return pieces * cents + POSTAGE",
        house_code="    return (pieces - pieces // RULE) * cents + POSTAGE",
        complaints={
            "heldout": (
                "{call} should be {want}: the postage is due once.",
                "Customers pay postage for every piece. {call} must come to {want}.",
            )
        },
        paraphrases=(
            "every {rule}th piece is free",
            "of {rule} pieces one is a gift that nobody pays for",
            "a customer pays all but each {rule}th piece",
        ),
        instruction="leave every {rule}th piece out of the price",
        rules=(4, 5, 6, 7, 8, 9, 10),
        report=lambda draws, _: [draws.integer(2, 3), draws.integer(20, 900)],
        call=lambda draws, _, rule: [draws.integer(1, 3 * rule), draws.integer(20, 900)],
        plain=lambda postage, pieces, cents: postage + sum(cents for _ in range(pieces)),
        house=lambda postage, rule, pieces, cents: postage + sum(cents for n in range(1, pieces + 1) if n % rule),
    ),
}
