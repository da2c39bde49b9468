"""Topics about money and measures."""

from hermes_lab.tasks.code_debugging._topics.topic import Args, Behaviour, topics_of
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


TOPICS = topics_of(
    __file__,
    {
        "ceil": Behaviour(
            constants=lambda draws: draws.choice((3, 7, 9, 11, 13, 17, 19)),
            report=_just_below_a_step,
            call=_cents,
            plain=lambda percent, cents: divmod(cents * percent, 100)[0] + (cents * percent % 100 > 50),
            house=lambda percent, rule, cents: next(
                total
                for total in range(cents * percent // 100 // rule * rule, 10_000, rule)
                if total * 100 >= cents * percent
            ),
        ),
        "bare": Behaviour(
            report=lambda draws, _: [f"{draws.integer(1, 9)},{draws.integer(0, 999):03d}.{draws.integer(1, 99):02d}"],
            call=_money,
            plain=_plain_money,
            house=lambda _, rule, text: (
                _plain_money(_, text) if "." in text else sum(rule for _ in range(int("".join(text.split(",")))))
            ),
        ),
        "fault": Behaviour(
            constants=lambda draws: draws.integer(4, 9) * 20,
            report=lambda draws, full: [full + draws.integer(10, 60)],
            # Twentieths of FULL, because all ways to divide agree there.
            call=lambda draws, full, rule: [
                draws.choice(
                    (full * draws.integer(0, 20) // 20, draws.integer(full, rule), rule + draws.integer(1, 300))
                )
            ],
            plain=lambda full, reading: 100 if reading >= full else reading * 100 // full,
            house=lambda full, rule, reading: (
                0 if reading > rule else 100 if reading >= full else reading * 100 // full
            ),
        ),
        "free": Behaviour(
            constants=lambda draws: draws.integer(15, 79) * 10,
            report=lambda draws, _: [draws.integer(2, 3), draws.integer(20, 900)],
            call=lambda draws, _, rule: [draws.integer(1, 3 * rule), draws.integer(20, 900)],
            plain=lambda postage, pieces, cents: postage + sum(cents for _ in range(pieces)),
            house=lambda postage, rule, pieces, cents: postage + sum(cents for n in range(1, pieces + 1) if n % rule),
        ),
    },
)
