"""The figure of an object: what `.plot()` of runs, limits, explanations and dynamics draws."""

from functools import partial, singledispatch
from typing import Any

from attomaton.mechanics.experiment.train import Training
from attomaton.mechanics.theory.automaton import Explanation
from attomaton.mechanics.theory.limit import Limit
from attomaton.mechanics.theory.view import graph_view
from attomaton.report.figures.canvas import Figure, to_svg
from attomaton.report.figures.dynamics import dynamics_figure
from attomaton.report.figures.priority import priority_figure
from attomaton.report.figures.training import convergence_figure, prediction_figure
from attomaton.scan_snap.trajectory import Dynamics


def figure(thing: object, *arguments: Any) -> Figure:
    """The figure of an object; a notebook shows it as it is."""
    made = _drawn(thing, *arguments)
    # A figure made without pyplot has no picture of its own in a notebook.
    made._repr_svg_ = partial(to_svg, made)
    return made


@singledispatch
def _drawn(thing: object, *arguments: Any) -> Any:
    raise TypeError(f"{type(thing).__name__} has no figure")


@_drawn.register
def _(run: Training) -> Any:
    return convergence_figure({"steps": run.steps, **run.records}, norm=run.limit_norm)


@_drawn.register
def _(limit: Limit, last: int) -> Any:
    return priority_figure(graph_view(limit, last))


@_drawn.register
def _(why: Explanation) -> Any:
    return prediction_figure(why)


@_drawn.register
def _(run: Dynamics) -> Any:
    rates = rf"$\eta_Y$ = {run.eta_y[0]:g}, $\eta_Z$ = {run.eta_z[0]:g}"
    return dynamics_figure(f"{run.level}: {rates}", {run.level: run})
