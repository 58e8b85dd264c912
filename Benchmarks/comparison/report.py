"""The report: a table in the terminal, Markdown, a chart, and everything as JSON."""
import json
import math
import statistics

from . import chart
from .rows import CPU

_KEPT = "of the rate without a store"
_ALONE = "of the rate of a broker alone"
_LEFT = "of what a broker and NATS servers alone leave each other on the same cores"
_MORE = "times a plain subscriber's"


def write(directory, facts, brokers, rows, results, rounds, seconds):
    """Writes report.md, chart.svg and results.json into the directory, and prints the table."""
    directory.mkdir(parents=True, exist_ok=True)
    medians = {row.name: _medians(row, results.get(row.name, {})) for row in rows}
    rows = [row for row in rows if medians[row.name]]
    brokers = [broker for broker in brokers if any(broker.name in medians[row.name] for row in rows)]
    table = _table(brokers, rows, medians, results)
    how = (
        f"Medians of {rounds} rounds of {seconds:g} s, brokers in turn, each on a fresh process; load generator "
        "(`martlet bench`) and broker share the machine. In parentheses: times the floor, times mosquitto, in the same run; "
        "above 1 is better in every row. A row whose work the floor cannot do is told beside the nearest that it can "
        "(its exact fan-out, its pairs at QoS 0).")
    text = ["# Measured\n", "![How many times mosquitto](chart.svg)\n", how + "\n"]
    text += [f"- {what}: {value}" for what, value in facts]
    text += _promises(brokers, rows)
    text += ["", table, "", "## Spread\n", _spread(brokers, rows, results), ""]
    (directory / "report.md").write_text("\n".join(text))
    (directory / "chart.svg").write_text(chart.draw(brokers, rows, medians))
    (directory / "results.json").write_text(json.dumps({"facts": dict(facts), "results": results}, indent=1) + "\n")
    print("\n" + table + f"\n\nwritten to {directory}")


def _promises(brokers, rows):
    """What an acknowledgement means where there is a store: without that, rates say nothing."""
    if not any(row.has_store for row in rows):
        return []
    names = {}
    for broker in brokers:
        if broker.promise:
            names.setdefault(broker.promise, []).append(broker.name)
    lines = ["", "In rows with a store a message is", ""]
    return lines + [f"- {' and '.join(told)}: {promise}" for promise, told in names.items()]


def _medians(row, results):
    """{broker: {figure's key: median}}"""
    medians = {}
    for broker, rounds in results.items():
        for figure in row.figures:
            values = [value for value in map(figure.read, rounds) if value is not None]
            if values:
                medians.setdefault(broker, {})[figure.key] = statistics.median(values)
    return medians


def _table(brokers, rows, medians, results):
    lines = ["| work | figure | " + " | ".join(broker.name for broker in brokers) + " |"]
    lines.append("|---|---|" + "---|" * len(brokers))
    for row in rows:
        for number, figure in enumerate(row.figures):
            cells = [_cell(broker.name, row, figure, medians) for broker in brokers]
            if any(cells):
                title = row.title if number == 0 else ""
                lines.append(f"| {title} | {figure.label}, {figure.unit} | " + " | ".join(cells) + " |")
        if row.without_store:
            kept = [_kept(broker, row, results) for broker in brokers]
            cells = [f"{statistics.median(parts):.2f}" if parts else "" for parts in kept]
            lines.append(f"|  | {_KEPT} | " + " | ".join(cells) + " |")
        if row.without_cluster:
            parts = [_parts(broker, row, row.without_cluster, results) for broker in brokers]
            cells = [f"{statistics.median(part):.2f}" if part else "" for part in parts]
            lines.append(f"|  | {_ALONE} | " + " | ".join(cells) + " |")
        if row.without_cluster and row.servers_alone:
            left = [_left(broker, row, results) for broker in brokers]
            cells = [f"{statistics.median(part):.2f}" if part else "" for part in left]
            lines.append(f"|  | {_LEFT} | " + " | ".join(cells) + " |")
        if row.without_bridge:
            more = [_more(broker, row, results) for broker in brokers]
            cells = [f"{statistics.median(parts):.2f}" if parts else "" for parts in more]
            lines.append(f"|  | CPU each, {_MORE} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(broker, row, figure, medians):
    value = medians[row.name].get(broker, {}).get(figure.key)
    if value is None:
        return ""
    if not figure.has_ratio:
        return figure.text(value)
    ratios = [_ratio(broker, value, base, row, figure, medians) for base in ("floor", "mosquitto")]
    told = [ratio for ratio in ratios if ratio]
    return figure.text(value) + (f" ({', '.join(told)})" if told else "")


def _kept(broker, row, results):
    """Each round's part of its rate that a broker keeps with a store: neighbours in time compare best."""
    if not broker.store:
        return []
    return _parts(broker, row, row.without_store, results)


def _parts(broker, row, other, results):
    """Each round's first figure as a part of another row's."""
    figure = row.figures[0]
    here, there = (results.get(name, {}).get(broker.name, []) for name in (row.name, other))
    return [figure.read(one) / figure.read(rate) for one, rate in zip(here, there) if figure.read(rate)]


def _left(broker, row, results):
    """Each round's rate as a part of what there would be if a message cost what it costs a broker alone, and NATS servers alone, together."""
    figure, rounds = row.figures[0], results.get(row.name, {}).get(broker.name, [])
    of_servers = [figure.read(one) / figure.scale / math.prod(other.read(one) / other.scale for other in row.servers_alone) for one in rounds]
    return [sum(both) for both in zip(_parts(broker, row, row.without_cluster, results), of_servers)]


def _more(broker, row, results):
    """Each round's CPU of a message that goes over a bridge, as times that of one that goes to a subscriber of the same broker."""
    over, plain = (results.get(name, {}).get(broker.name, []) for name in (row.name, row.without_bridge))
    pairs = [(CPU.read(one), CPU.read(other)) for one, other in zip(over, plain)]
    return [one / other for one, other in pairs if one and other]


def _ratio(broker, value, base, row, figure, medians):
    if broker in (base, "floor"):
        return ""
    of_base = medians[row.name].get(base, {}).get(figure.key)
    if of_base is None and row.floor and base == "floor":
        of_base = medians.get(row.floor, {}).get(base, {}).get(figure.key)
    if not of_base or not value:
        return "–"
    ratio = value / of_base if figure.more_is_better else of_base / value
    return f"{ratio:.3g}×" if ratio < 100 else f"{ratio:.0f}×"


def _spread(brokers, rows, results):
    """Lowest and highest of each row's first figure, and of the part that is kept with a store: how far to trust a median."""
    lines = ["| work | " + " | ".join(broker.name for broker in brokers) + " |", "|---|" + "---|" * len(brokers)]
    for row in rows:
        figure = row.figures[0]
        cells = []
        for broker in brokers:
            values = [value for value in map(figure.read, results.get(row.name, {}).get(broker.name, [])) if value is not None]
            cells.append(f"{figure.text(min(values))} … {figure.text(max(values))}" if values else "")
        lines.append(f"| {row.title}, {figure.unit} | " + " | ".join(cells) + " |")
        if row.without_store:
            kept = [_kept(broker, row, results) for broker in brokers]
            cells = [f"{min(parts):.2f} … {max(parts):.2f}" if parts else "" for parts in kept]
            lines.append(f"| {_KEPT} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
