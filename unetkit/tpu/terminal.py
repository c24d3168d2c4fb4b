"""An answer on a terminal: what a reader can take in within a minute, with rich."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unetkit.tpu.answer import Advice, Answer, Buffer, Category, Curve
from unetkit.tpu.html import origin
from unetkit.tpu.oom import OutOfMemory

BARS = " ▁▂▃▄▅▆▇█"
SHOWN = {"buffers": 12, "operations": 8, "parts": 4, "levels": 12}


def text(answers: Answer | Sequence[Answer]) -> str:
    """Answers as text for this terminal: in full when there is one, a table of them when there are more."""
    if isinstance(answers, Answer):
        return render(sections(answers))
    if len(answers) == 1:
        return render(sections(answers[0]))
    return render([comparison(answers), Text("\n").join(map(verdict, answers)), Text(origin(answers[0]), style="dim")])


def oom_text(said: OutOfMemory) -> str:
    """What an out-of-memory text says, for this terminal."""
    head = Text("out of memory", style="bold red")
    if said.required_bytes is not None:
        head.append(f": {size(said.required_bytes)} of {said.space} needed", style="")
        head.append(
            f", {size(said.available_bytes)} there, {size(said.exceeded_bytes)} too much" if said.available_bytes is not None else ""
        )
    if said.module:
        head.append(f" (program {said.module})")
    parts: list[RenderableType] = [head]
    if said.sections:
        table = _table("what was counted", "bytes", "unpadded", "padded", right=(1, 2, 3))
        for row in said.sections:
            table.add_row(row.name, size(row.bytes), *("" if n is None else size(n) for n in (row.unpadded_bytes, row.padded_bytes)))
        parts.append(table)
    if said.buffers:
        parts += [buffer_table("allocations listed", said.buffers), most_padded(said.buffers)]
    if said.padding.ratio is not None:
        parts.append(Text(f"padding {said.padding.ratio:.2f}x over {said.padding_of}"))
    if said.advice:
        parts.append(advice(said.advice))
    return render(parts)


def render(parts: Sequence[RenderableType]) -> str:
    """Text as wide as the terminal, coloured if it is one."""
    console = Console(highlight=False)
    with console.capture() as capture:
        for number, part in enumerate(parts):
            if number:
                console.print()
            console.print(part)
    return capture.get().rstrip("\n")


def sections(answer: Answer) -> list[RenderableType]:
    """All parts of one answer, in reading order; what is not known is left out."""
    parts: list[RenderableType] = [verdict(answer), memory(answer)]
    if answer.curve:
        parts.append(curve(answer.curve))
    if answer.buffers:
        origin_of = f" ({answer.buffers_from})" if answer.buffers_from else ""
        parts += [buffer_table(f"buffers alive at the peak{origin_of}", answer.buffers), most_padded(answer.buffers)]
    if answer.step.estimated_ms is not None:
        parts += [step(answer), categories(answer), most_wasted(answer.categories), operations(answer), levels(answer)]
    if answer.advice:
        parts.append(advice(answer.advice))
    parts.append(Text("\n".join([origin(answer), *answer.notes]), style="dim"))
    return parts


def verdict(answer: Answer) -> Text:
    """One line: does it fit, and by how much."""
    head = f"{answer.name} on {answer.chip}, global batch {answer.global_batch} ({answer.per_core_batch} per replica), "
    head += f"{answer.precision}, {answer.program} program: "
    hbm = answer.hbm
    if answer.fits is None:
        return Text.assemble(head, ("the compiler failed. ", "bold yellow"), answer.failure or "")
    if hbm.peak_bytes is None or hbm.limit_bytes is None:
        return Text.assemble(head, ("fits", "bold green") if answer.fits else ("does not fit", "bold red"))
    share = f"{size(hbm.peak_bytes)} of {size(hbm.limit_bytes)} HBM per replica ({hbm.peak_bytes / hbm.limit_bytes:.0%})"
    if answer.fits:
        return Text.assemble(head, ("fits", "bold green"), f", {share}")
    return Text.assemble(head, ("does not fit", "bold red"), f", {share}: {size(hbm.peak_bytes - hbm.limit_bytes)} too much")


def memory(answer: Answer) -> Table:
    hbm, padding = answer.hbm, answer.padding
    table = _table("memory", "per replica", f"all {answer.replicas} replicas")
    rows = (
        ("arguments", hbm.argument_bytes),
        ("  weights", hbm.weight_bytes),
        ("  optimizer state", hbm.optimizer_bytes),
        ("  batch", hbm.input_bytes),
        ("temporaries", hbm.temp_bytes),
        ("outputs not donated", hbm.output_bytes),
        ("needed", hbm.peak_bytes),
        ("  alive at the peak", padding.peak_padded_bytes),
        ("  of that without padding", padding.peak_unpadded_bytes),
        ("program code", hbm.code_bytes),
    )
    for name, value in rows:
        if value is not None:
            table.add_row(name, size(value), size(value * answer.replicas), style="bold" if name == "needed" else None)
    if padding.ratio is not None:
        table.add_row("padding ratio at the peak", f"{padding.ratio:.2f}", "")
    return table


def curve(points: Curve) -> Text:
    """Bytes alive over the program's order, the peak marked; the lower line is without padding."""
    count = len(points.padded_bytes)
    top = max(points.padded_bytes) or 1
    ends = size(top), size(points.unpadded_bytes[points.peak])
    width = min(count, max(20, min(100, Console().width - max(map(len, ends)) - 2)))
    columns = [range(i * count // width, (i + 1) * count // width) for i in range(width)]

    def line(values: tuple[int, ...]) -> str:
        return "".join(BARS[round((len(BARS) - 1) * max(values[i] for i in column) / top)] for column in columns)

    mark = next(n for n, column in enumerate(columns) if points.peak in column)
    return Text("\n").join(
        [
            Text("memory over the program's order: with padding, and without", style="bold"),
            Text(f"{line(points.padded_bytes)}  {ends[0]}"),
            Text(f"{line(points.unpadded_bytes)}  {ends[1]}", style="dim"),
            Text(" " * mark + "^ peak at " + points.instructions[points.peak]),
        ]
    )


def buffer_table(title: str, rows: Sequence[Buffer]) -> Table:
    """The largest buffers, two lines each, and the rest in one row."""
    table = _table(title, "unpadded", "padded", "x", right=(1, 2, 3))
    shown = [b for b in rows if b.count == 1][: SHOWN["buffers"]]
    for row in shown:
        made_by = f" ({row.instruction})" if row.instruction else ""
        head = Text.assemble(named(row), (made_by, "dim"))
        table.add_row(Group(head, Padding(f"{row.shape}{row.layout or ''}", (0, 0, 0, 4), style="dim")), *_bytes(row))
    rest = [b for b in rows if b not in shown]
    if rest:
        folded = Buffer(
            kind="other", shape="", layout=None, count=sum(b.count for b in rest),
            unpadded_bytes=sum(b.unpadded_bytes for b in rest), padded_bytes=sum(b.padded_bytes for b in rest),
        )  # fmt: skip
        table.add_row(f"{folded.count} smaller ones", *_bytes(folded), style="dim")
    return table


def most_padded(rows: Sequence[Buffer]) -> Text:
    """One sentence: how much of the buffers is padding, and which three hold most of it."""
    lost = sum(b.padded_bytes - b.unpadded_bytes for b in rows)
    worst = sorted((b for b in rows if b.count == 1), key=lambda b: b.unpadded_bytes - b.padded_bytes)[:3]
    where = ", ".join(f"{named(b)} ({size(b.padded_bytes - b.unpadded_bytes)})" for b in worst if b.padded_bytes > b.unpadded_bytes)
    total = sum(b.padded_bytes for b in rows)
    return Text.assemble((f"padding is {size(lost)} of these {size(total)}", "bold"), f"; most in {where}" if where else "")


def named(row: Buffer) -> str:
    """What a buffer is and of which layer, as `gradient of up_0/block0/conv1`."""
    if row.kind == "other" and row.layer:
        return row.layer
    return f"{row.kind} of {row.layer}" if row.layer and row.layer != row.kind else row.kind


def step(answer: Answer) -> Text:
    known = answer.step
    return Text.assemble(
        (f"step {known.estimated_ms:.1f} ms", "bold"),
        f" ({known.cycles / 1e6:.1f} M cycles counted by the compiler)" if known.cycles is not None else "",
        f", {known.images_per_second:,.0f} images/s in all, {known.images_per_second_per_chip:,.0f} per chip",
        (f", matrix units {known.mxu_utilization:.1%} used", "bold"),
        f"; {known.estimated_from_bytes_share:.1%} of the time is estimated from bytes and links"
        if known.estimated_from_bytes_share is not None
        else "",
    )


def categories(answer: Answer) -> Table:
    table = _table("time by category", "share", "ms", "ops", "MXU", "HBM", "wasted", "from bytes", right=range(1, 8))
    for row in answer.categories:
        if row.time_share >= 0.0005:
            table.add_row(
                row.name, f"{row.time_share:.1%}", f"{row.ms:.2f}", str(row.operations), _percent(row.flops_utilization),
                _percent(row.hbm_utilization), _percent(row.wasted_share), _percent(row.estimated_from_bytes_share),
            )  # fmt: skip
    return table


def most_wasted(rows: Sequence[Category]) -> Text:
    """One sentence: the category that wastes most of the step, and what the columns mean."""
    worst = max(rows, key=lambda row: row.wasted_share or 0.0)
    return Text.assemble(
        (f"most is wasted in {worst.name}: {worst.wasted_share or 0.0:.1%} of the step", "bold"),
        ("; MXU, HBM: share of what the matrix unit could compute and the memory could move in that time; ", "dim"),
        ("wasted: share x (1 - the larger of the two)", "dim"),
    )


def operations(answer: Answer) -> Table:
    """The longest operations; below each what is fused into it, convolutions first, and what these lose of the matrix unit."""
    table = _table("top operations, and what is in them", "time", "MXU", "HBM", right=(1, 2, 3))
    for row in answer.operations[: SHOWN["operations"]]:
        origin = "" if row.estimated_from == "cycles" else f" (from {row.estimated_from})"
        of = f" of {row.layer}, {row.in_pass}" if row.layer else ""
        table.add_row(
            Text.assemble(f"{row.category}{of}", (f"  {row.name}{origin}", "dim")), f"{row.time_share:.1%}",
            _percent(row.flops_utilization), _percent(row.hbm_utilization),
        )  # fmt: skip
        parts = sorted(row.parts, key=lambda part: part.kind != "convolution")
        for part in parts[: SHOWN["parts"]]:
            times = f"{part.count} x " if part.count > 1 else ""
            what = f"    {_percent(part.share)} {times}{part.opcode}{f' of {part.layer}' if part.layer else ''}"
            table.add_row(what, "", f"<= {part.fill:.1%}" if part.why else "", "", style="dim")
            if part.why:
                table.add_row(Padding(part.why, (0, 0, 0, 6)), "", "", "", style="dim")
        if rest := parts[SHOWN["parts"] :]:
            table.add_row(f"    {_percent(sum(part.share or 0.0 for part in rest))} {len(rest)} more", "", "", "", style="dim")
    return table


def levels(answer: Answer) -> Table:
    """Time by level of the U-Net (of another model: by layer), forward and backward apart; what is neither in all."""
    names = list(dict.fromkeys(row.name for row in answer.levels))
    leveled = any(name.startswith("level") for name in names)
    table = _table(f"time by {'level' if leveled else 'layer'}", "forward", "MXU", "backward", "MXU", right=range(1, 5))
    by = {(row.name, row.in_pass): row for row in answer.levels}
    order = sorted(names, key=lambda n: (not n.startswith("level"), n)) if leveled else names
    for name in order[: SHOWN["levels"]]:
        forward, backward = by.get((name, "forward")), by.get((name, "backward"))
        rest = [row for row in answer.levels if row.name == name and row.in_pass in ("update", "other")]
        cells = [
            c for row in (forward, backward) for c in ((f"{row.time_share:.1%}", _percent(row.flops_utilization)) if row else ("", ""))
        ]
        if rest:
            cells = [f"{sum(r.time_share for r in (*rest, *filter(None, (forward, backward)))):.1%}", "", "", ""]
        table.add_row(name, *cells)
    if more := set(order[SHOWN["levels"] :]):
        shares = (sum(row.time_share for row in answer.levels if row.name in more and row.in_pass == p) for p in ("forward", "backward"))
        table.add_row(f"{len(more)} more", *(cell for share in shares for cell in (f"{share:.1%}", "")), style="dim")
    return table


def advice(given: Sequence[Advice]) -> Text:
    """What would help, one paragraph each: the change, and the number it lowers."""
    how = {"compiled": "by the compiler", "model": "by the arithmetic model", "arithmetic": "by tile arithmetic"}
    lines = [Text("what would help (each was tried)", style="bold")]
    for number, row in enumerate(given, 1):
        change = f"{_quantity(row.before)} -> {_quantity(row.after)} ({row.after / row.before - 1:+.0%}, {how[row.tried]})"
        lines.append(Text.assemble(f"{number}. {row.text}\n", (f"   {row.quantity}: {change}", "dim")))
    return Text("\n").join(lines)


def comparison(answers: Sequence[Answer]) -> Table:
    """One row per answer."""
    table = _table("batch", "per\nreplica", "fits", "needed", "tempo-\nraries", "pad-\nding", "step\nms", "M\ncycles", "images\n/s", "MXU",
                   right=range(1, 10))  # fmt: skip
    for answer in answers:
        hbm, time = answer.hbm, answer.step
        fits = {True: "yes", False: "no", None: "?"}[answer.fits]
        table.add_row(
            str(answer.global_batch), str(answer.per_core_batch), fits, size(hbm.peak_bytes), size(hbm.temp_bytes),
            _number(answer.padding.ratio, ".2f"), _number(time.estimated_ms, ".1f"), _number(time.cycles and time.cycles / 1e6, ".1f"),
            _number(time.images_per_second, ",.0f"), _percent(time.mxu_utilization),
        )  # fmt: skip
    return table


def size(count: float | None) -> str:
    """Bytes as people read them, in powers of 1024."""
    if count is None:
        return "?"
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(count) >= scale:
            return f"{count / scale:.2f} {unit}"
    return f"{count:.0f} B"


def _table(first: str, *columns: str, right=(1, 2)) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate((first, *columns)):
        table.add_column(column, justify="right" if number in right else "left", overflow="fold")
    return table


def _bytes(row: Buffer) -> tuple[str, str, str]:
    return size(row.unpadded_bytes), size(row.padded_bytes), f"{row.expansion:.2f}" if row.expansion else ""


def _number(value: float | None, form: str) -> str:
    return "?" if value is None else format(value, form)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _quantity(value: float) -> str:
    return size(value) if value >= 2**20 else f"{value:.3g}"
