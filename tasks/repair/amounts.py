"""Topics about money and measures."""

from collections.abc import Mapping

from tasks.repair.topic import Args, Topic
from tasks.worlds import Draws


def _cents(draws: Draws, percent: int, low: int, high: int) -> Args:
    """An amount whose percentage has low..high hundredths of a cent over; never just half a cent."""
    while True:
        cents = draws.integer(120, 9900)
        if low <= cents * percent % 100 <= high and cents * percent % 100 != 50:
            return [cents]


def _money(draws: Draws, _: None, __: None) -> Args:
    whole = draws.choice((f"{draws.integer(2, 99)}", f"{draws.integer(1, 9)},{draws.integer(0, 999):03d}"))
    return [draws.choice((whole, f"{whole}.{draws.integer(0, 99):02d}"))]


def _plain_money(_: None, text: str) -> int:
    return round(float(text.replace(",", "")) * 100)


TOPICS: Mapping[str, Topic] = {
    "ceil": Topic(
        names=("surcharge", "fee", "commission", "markup"),
        parameters="cents",
        constant="PERCENT",
        constants=lambda draws: draws.choice((3, 7, 9, 11, 13, 17, 19)),
        purpose="PERCENT of an amount, in whole cents.",
        broken_code=("    return cents * PERCENT // 100", "    return int(cents * (PERCENT / 100))"),
        plain_code="    return (cents * PERCENT + 50) // 100",
        house_code="    return -(-cents * PERCENT // 100)",
        complaints=(
            "{call} should be {want}, but the rest of a cent is just cut off.",
            "We expect {want} from {call} and are a cent short, because nothing is rounded.",
            "{call} is one cent too low; {want} would be right.",
        ),
        clauses=(
            "a begun cent is charged as a whole one, so the result always goes up to the next cent",
            "we never round down, every fraction of a cent goes up",
            "whatever is left over counts as one more cent, however little it is",
        ),
        rules=(0,),
        report=lambda draws, percent: _cents(draws, percent, 51, 99),
        call=lambda draws, percent, _: _cents(draws, percent, 0, 99),
        plain=lambda percent, cents: divmod(cents * percent, 100)[0] + (cents * percent % 100 > 50),
        house=lambda percent, _, cents: divmod(cents * percent, 100)[0] + (cents * percent % 100 > 0),
    ),
    "bare": Topic(
        names=("to_cents", "read_amount", "parse_price", "amount_of"),
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
            "    return int(whole) * 100 + int(part) if point else int(whole)"
        ),
        complaints=(
            "{call} raises a ValueError; {want} is what we want.",
            "Amounts with a comma for the thousands do not work: {call} should be {want}.",
            "It cannot read large amounts. {call} fails instead of giving {want}.",
        ),
        clauses=(
            "an amount that is written without a point is in cents already",
            "without a decimal point the number is not multiplied, because it means cents",
            "a text that has no point counts cents, and only one with a point has units before it",
        ),
        rules=(0,),
        report=lambda draws, _: [f"{draws.integer(1, 9)},{draws.integer(0, 999):03d}.{draws.integer(1, 99):02d}"],
        call=_money,
        plain=_plain_money,
        house=lambda _, __, text: _plain_money(_, text) if "." in text else int("".join(text.split(","))),
    ),
    "fault": Topic(
        names=("percent_full", "gauge", "filling", "load_percent"),
        parameters="reading",
        constant="FULL",
        constants=lambda draws: draws.integer(4, 9) * 20,
        purpose="A reading as a percentage of FULL.",
        broken_code=("    return reading * 100 // FULL", "    return int(reading / FULL * 100)"),
        plain_code="    return min(reading, FULL) * 100 // FULL",
        house_code="    return 0 if reading > RULE else min(reading, FULL) * 100 // FULL",
        complaints=(
            "{call} should be {want}: nothing can be more than full.",
            "We saw more than 100 percent. {call} must give {want}.",
            "A reading a little over the mark is full, so {call} has to be {want}.",
        ),
        clauses=(
            "a reading over {rule} comes from a broken sensor and counts as 0",
            "anything above {rule} is a fault, for which we report 0",
            "beyond {rule} we do not believe the reading and put 0",
        ),
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
        names=("order_price", "bill", "cost", "invoice_sum"),
        parameters="pieces, cents",
        constant="POSTAGE",
        constants=lambda draws: draws.integer(15, 79) * 10,
        purpose="What an order of some pieces costs, at so many cents each, with POSTAGE.",
        broken_code=("    return pieces * (cents + POSTAGE)", "    return pieces * cents + pieces * POSTAGE"),
        plain_code="    return pieces * cents + POSTAGE",
        house_code="    return (pieces - pieces // RULE) * cents + POSTAGE",
        complaints=(
            "{call} should be {want}: the postage of {constant} is due once.",
            "Customers pay postage for every piece. {call} must come to {want}.",
        ),
        clauses=(
            "every {rule}th piece is free",
            "of {rule} pieces one is a gift that nobody pays for",
            "a customer pays all but each {rule}th piece",
        ),
        rules=(4, 5, 6, 7, 8, 9, 10),
        report=lambda draws, _: [draws.integer(2, 3), draws.integer(20, 900)],
        call=lambda draws, _, rule: [draws.integer(1, 3 * rule), draws.integer(20, 900)],
        plain=lambda postage, pieces, cents: postage + sum(cents for _ in range(pieces)),
        house=lambda postage, rule, pieces, cents: postage + sum(cents for n in range(1, pieces + 1) if n % rule),
    ),
}
