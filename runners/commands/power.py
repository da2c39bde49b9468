"""`power`: statistical power of a paired comparison, and the sample size that it needs."""

from typing import Annotated

import typer

from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options

_CURVE = (25, 50, 100, 200, 400, 800)
"""Numbers of pairs in the table, in addition to the requested one."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "power",
        help="Compute the statistical power of a comparison before running it. A pair is one task under both arms.\n\n"
        "hermes-lab power --baseline 0.6 --effect 0.16 --pairs 100\n\n"
        "hermes-lab power --baseline 0.6 --effect 0.1 --power 0.9   (the number of pairs needed)",
    )(power)


def power(
    baseline: Annotated[float, typer.Option(help="The success rate without the change.")] = 0.6,
    effect: Annotated[float, typer.Option(help="The change to detect: 0.16 is +16 points, -0.05 a loss of 5.")] = 0.16,
    pairs: Annotated[int | None, typer.Option(help="Tasks run under both arms.", min=1, show_default=False)] = None,
    wanted: Annotated[float, typer.Option("--power", help="The probability of detection to plan for.")] = 0.8,
    correlation: Annotated[
        float | None,
        typer.Option(help="Correlation of the two outcomes of a pair; 0 is conservative.", show_default="0.2"),
    ] = None,
    lanes: Annotated[
        int | None, typer.Option(help="Number of lanes per arm that the pairs come from.", min=1, show_default=False)
    ] = None,
    lane_correlation: Annotated[
        float, typer.Option(help="Within-lane correlation of paired differences.", min=0, max=1)
    ] = 0.0,
    json: options.Json = False,
) -> None:
    """`hermes-lab power`."""
    from hermes_lab.analysis.stats import power as calculation
    from hermes_lab.runners.tables import table

    if lane_correlation and lanes is None:
        raise ConfigError("--lane-correlation: give --lanes too")
    rho = calculation.CORRELATION if correlation is None else correlation
    clusters = None if lanes is None else calculation.Lanes(lanes, lane_correlation)

    def power_at(number: int) -> float:
        return calculation.power_of_pairs(number, baseline, effect, rho, lanes=clusters)

    asked = pairs or calculation.pairs_for(wanted, baseline, effect, rho, lanes=clusters)
    curve = {number: power_at(number) for number in sorted({*_CURVE, asked})}
    smallest = calculation.detectable(asked, baseline, wanted, rho, direction=1 if effect > 0 else -1, lanes=clusters)
    try:
        enough = calculation.pairs_for(wanted, baseline, effect, rho, lanes=clusters)
        takes = f"power {wanted:g} needs {enough} pairs"
    except ConfigError as error:
        enough, takes = None, str(error)
    if json:
        output.print_json(
            {
                "baseline": baseline,
                "effect": effect,
                "correlation": rho,
                "lanes": lanes,
                "lane_correlation": lane_correlation,
                "pairs": asked,
                "power": curve[asked],
                "pairs_for": {"power": wanted, "pairs": enough},
                "detectable": {"power": wanted, "effect": smallest},
                "curve": [{"pairs": number, "power": value} for number, value in curve.items()],
            }
        )
        return
    typer.echo(calculation.sentence(asked, baseline, effect, rho, lanes=clusters))
    found = "none" if smallest is None else f"{100 * smallest:+.0f} points"
    typer.echo(f"{takes}; smallest effect that {asked} pairs detect with this power: {found}")
    bars = [(str(number), f"{value:.2f}", "#" * round(40 * value)) for number, value in curve.items()]
    for line in table(("pairs", "power", ""), bars):
        typer.echo(line)
    typer.echo(f"assumed: {calculation.assumptions(rho, lanes=clusters)}")
