"use strict";
(() => {
  const { answer, chip, estimate } = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const KINDS = ["activation", "gradient", "weight", "optimizer", "input", "output", "constant", "other"];
  const KIND_COLOURS = { activation: 0, gradient: 1, weight: 2, optimizer: 3, input: 5, output: 5, constant: 4, other: 4 };

  // --- words and numbers ---------------------------------------------------------------------------------------

  const known = (value) => value !== null && value !== undefined;
  const scaled = (value, units, step) => {
    let unit = 0;
    while (Math.abs(value) >= step && unit < units.length - 1) { value /= step; unit += 1; }
    return `${value.toLocaleString("en", { maximumSignificantDigits: value >= 100 ? 4 : 3 })} ${units[unit]}`;
  };
  const bytes = (value) => known(value) ? scaled(value, ["B", "KiB", "MiB", "GiB", "TiB"], 1024) : "unknown";
  const share = (value) => known(value) ? `${(100 * value).toLocaleString("en", { maximumFractionDigits: value < 0.0995 ? 1 : 0 })} %` : "unknown";
  const time = (ms) => !known(ms) ? "unknown" : ms < 1 ? scaled(ms * 1000, ["µs"], Infinity) : scaled(ms, ["ms", "s"], 1000);
  const times = (value) => known(value) ? `${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}x` : "unknown";
  const count = (value) => known(value) ? value.toLocaleString("en", { maximumSignificantDigits: 4 }) : "unknown";
  const flops = (value) => scaled(value, ["", "k", "M", "G", "T", "P"], 1000);
  const colour = (index) => `var(--c${index})`;

  // --- elements ------------------------------------------------------------------------------------------------

  const fill = (element, attributes, children) => {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "text") element.textContent = value;
      else if (known(value) && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter(known));
    return element;
  };
  const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const draw = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
  const open = (id) => { const section = document.getElementById(id); section.hidden = false; return section; };
  const caption = (text) => make("p", { class: "caption", text: `${text} ${estimate}` });
  const legend = (entries, shape = "") => make("ul", { class: "legend" },
    ...entries.map(([name, paint]) => make("li", {}, make("i", { class: shape, style: `background:${paint}` }), name)));

  const tip = document.getElementById("tip");
  const showTip = (lines, x, y) => {
    const [head, ...rest] = lines.filter(Boolean);
    tip.replaceChildren(make("b", { text: head }), ...rest.map((line) => make("div", { text: line })));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${y + box.height + 24 > innerHeight ? Math.max(8, y - box.height - 12) : y + 16}px`;
  };
  const hideTip = () => { tip.hidden = true; };
  const withTip = (element, lines) => {
    element.setAttribute("tabindex", "0");
    element.setAttribute("aria-label", lines.filter(Boolean).join(", "));
    const place = () => { const box = element.getBoundingClientRect(); showTip(lines, box.left + box.width / 2, box.top + box.height / 2); };
    element.addEventListener("pointermove", (event) => showTip(lines, event.clientX, event.clientY));
    element.addEventListener("pointerleave", hideTip);
    element.addEventListener("focus", place);
    element.addEventListener("blur", hideTip);
    return element;
  };
  addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });

  /** Draws a chart now and again whenever its section changes width. */
  const chart = (section, render) => {
    const frame = make("div", { class: "chart" });
    section.append(frame);
    let drawn = 0;
    const again = () => {
      const width = Math.max(320, Math.floor(frame.clientWidth));
      if (width !== drawn) { drawn = width; frame.replaceChildren(render(width)); }
    };
    again();
    new ResizeObserver(again).observe(frame);
  };

  /** Round values that span [0, most]. */
  const ticks = (most, wanted = 5, base = 10) => {
    const raw = most / wanted, power = base ** Math.floor(Math.log(raw) / Math.log(base));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw) || raw;
    return Array.from({ length: Math.floor(most / step) + 1 }, (_, index) => index * step);
  };

  // --- tables --------------------------------------------------------------------------------------------------

  /** A table whose headers sort it, with a filter where there is `filterOf`. columns: {name, of, show, number}. */
  const table = (section, label, columns, rows, sortBy, filterBy, filterOf) => {
    const body = make("tbody"), state = { column: sortBy, descending: true, text: "" };
    const lines = rows.map((row) => ({ row, element: make("tr", {}, ...columns.map((column) => {
      const shown = column.show ? column.show(row) : column.of(row);
      return make("td", { class: column.number && "number" }, shown instanceof Node ? shown : String(known(shown) ? shown : "–"));
    })) }));
    const heads = columns.map((column, index) => {
      const button = make("button", { type: "button", text: column.name, title: column.title });
      button.addEventListener("click", () => {
        if (state.column === index) state.descending = !state.descending;
        else Object.assign(state, { column: index, descending: Boolean(column.number) });
        update();
      });
      return make("th", { scope: "col", class: column.number && "number" }, button);
    });
    const compare = (left, right) => {
      const [a, b] = [columns[state.column].of(left.row), columns[state.column].of(right.row)];
      if (!known(a) || !known(b)) return known(b) - known(a);
      const order = typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
      return state.descending ? -order : order;
    };
    const update = () => {
      heads.forEach((head, index) => head.setAttribute("aria-sort",
        index !== state.column ? "none" : state.descending ? "descending" : "ascending"));
      const kept = lines.filter((line) => !state.text || filterOf(line.row).toLowerCase().includes(state.text));
      body.replaceChildren(...[...kept].sort(compare).map((line) => line.element));
    };
    if (filterOf && rows.length > 8) {
      const input = make("input", { type: "search", placeholder: `Filter by ${filterBy}`, "aria-label": `Filter ${label}` });
      input.addEventListener("input", () => { state.text = input.value.trim().toLowerCase(); update(); });
      section.append(make("label", { class: "filter" }, input));
    }
    section.append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
      make("table", { "aria-label": label }, make("thead", {}, make("tr", {}, ...heads)), body)));
    update();
  };
  const code = (text) => known(text) ? make("code", { text }) : null;

  // --- sections ------------------------------------------------------------------------------------------------

  const verdict = () => {
    const section = document.getElementById("verdict"), { hbm } = answer;
    const over = known(hbm.peak_bytes) && known(hbm.limit_bytes) ? hbm.peak_bytes - hbm.limit_bytes : null;
    section.classList.add(answer.fits ? "good" : answer.fits === false ? "bad" : "unknown");
    const words = answer.fits ? `Fits ${answer.chip}` : answer.fits === false ? `Does not fit ${answer.chip}` : `No verdict for ${answer.chip}`;
    section.append(make("strong", { text: words }), make("p", { text: !known(over) ? (answer.failure || "The memory is unknown.")
      : over > 0 ? `Needs ${bytes(hbm.peak_bytes)} of ${bytes(hbm.limit_bytes)} per replica: ${bytes(over)} too much.`
        : `Peak ${bytes(hbm.peak_bytes)} of ${bytes(hbm.limit_bytes)} usable per replica, ${bytes(-over)} free.` }));
    section.append(make("p", { class: "caption", text: estimate }));
    const whole = Math.max(hbm.peak_bytes || 0, hbm.limit_bytes || 0), sums = new Map();
    for (const buffer of answer.buffers) sums.set(buffer.kind, (sums.get(buffer.kind) || 0) + buffer.padded_bytes);
    const parts = KINDS.filter((kind) => sums.get(kind));
    if (!whole || !parts.length) return;
    section.append(make("div", { class: "meter", role: "img", "aria-label": parts.map((kind) => `${kind} ${bytes(sums.get(kind))}`).join(", ") },
      ...parts.map((kind) => withTip(make("span", { style: `width:${100 * sums.get(kind) / whole}%;background:${colour(KIND_COLOURS[kind])}` }),
        [kind, `${bytes(sums.get(kind))} alive at the peak`]))));
    section.append(legend(parts.map((kind) => [`${kind} ${bytes(sums.get(kind))}`, colour(KIND_COLOURS[kind])])));
  };

  const tiles = () => {
    const { hbm, padding, step } = answer, lost = known(padding.peak_padded_bytes) ? padding.peak_padded_bytes - padding.peak_unpadded_bytes : null;
    const tile = (name, value, more) => make("div", { class: "tile" }, make("span", { class: "name", text: name }), make("b", { text: value }),
      make("span", { class: "more", text: more }));
    document.getElementById("tiles").append(
      tile("Memory needed per replica", bytes(hbm.peak_bytes), known(hbm.limit_bytes) ? `of ${bytes(hbm.limit_bytes)}` : ""),
      tile("Tile padding at the peak", times(padding.ratio), known(lost) ? `${bytes(lost)} hold nothing` : ""),
      tile("Step time", time(step.estimated_ms), known(step.estimated_from_bytes_share) ? `${share(step.estimated_from_bytes_share)} of it from bytes, not cycles` : "estimated"),
      tile("Images per second", known(step.images_per_second) ? count(step.images_per_second) : "unknown",
        known(step.images_per_second_per_chip) ? `${count(step.images_per_second_per_chip)} per chip` : ""),
      tile("Matrix unit in use", share(step.mxu_utilization), "of its peak"),
    );
  };

  const advice = () => {
    if (!answer.advice.length) return;
    const say = (line) => (value) => /byte/.test(line.quantity) ? bytes(value) : /\bms\b/.test(line.quantity) ? time(value)
      : /share|utili/.test(line.quantity) ? share(value) : times(value);
    open("advice").append(
      make("p", { class: "caption", text: "Each change was tried before it is told here, and lowered the number beside it." }),
      make("ul", { class: "advice" }, ...answer.advice.map((line) => make("li", {}, make("span", { text: line.text }),
        make("span", { class: "promise" }, make("span", { text: `${say(line)(line.before)} → ` }), make("b", { text: say(line)(line.after) }),
          make("small", { text: `${line.quantity}; tried: ${line.tried}` }))))));
  };

  const memory = () => {
    const { curve, hbm } = answer;
    if (!curve || curve.positions.length < 2) return;
    const section = open("memory"), last = curve.positions.length - 1;
    section.append(caption("Bytes alive after each operation, in the order they run, with tile padding and without. The arrow keys walk along the curve."),
      legend([["with padding", "var(--padded)"], ["without padding", "var(--unpadded)"], ...(hbm.limit_bytes ? [["usable HBM", "var(--limit)"]] : [])]));
    chart(section, (width) => {
      const height = 300, box = { left: 64, right: 14, top: 22, bottom: 34 };
      const most = Math.max(...curve.padded_bytes) * 1.08, limit = hbm.limit_bytes && hbm.limit_bytes < 1.6 * most ? hbm.limit_bytes : null;
      const top = Math.max(most, limit ? limit * 1.05 : 0), from = curve.positions[0], span = curve.positions[last] - from || 1;
      const x = (position) => box.left + (width - box.left - box.right) * (position - from) / span;
      const y = (value) => height - box.bottom - (height - box.top - box.bottom) * value / top;
      const steps = (values) => values.map((value, index) => `${index ? `H${x(curve.positions[index]).toFixed(1)}V` : `M${x(from)},`}${y(value).toFixed(1)}`).join("");
      const unit = 1024 ** Math.min(4, Math.floor(Math.log(top) / Math.log(1024)));
      const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: "0",
        "aria-label": `Memory over the program: peak ${bytes(curve.padded_bytes[curve.peak])} at ${curve.instructions[curve.peak]}` });
      for (const value of ticks(top / unit).map((tick) => tick * unit)) {
        svg.append(draw("line", { class: "grid", x1: box.left, x2: width - box.right, y1: y(value), y2: y(value) }),
          draw("text", { x: box.left - 8, y: y(value) + 4, "text-anchor": "end", text: value ? bytes(value) : "0" }));
      }
      svg.append(draw("text", { x: (box.left + width) / 2, y: height - 6, "text-anchor": "middle", text: "operations, in program order" }));
      const area = (values) => `${steps(values)}V${y(0)}H${x(from)}Z`;
      svg.append(draw("path", { d: area(curve.padded_bytes), fill: "var(--padded)", opacity: 0.13 }),
        draw("path", { d: area(curve.unpadded_bytes), fill: "var(--unpadded)", opacity: 0.16 }),
        draw("path", { class: "curve", d: steps(curve.unpadded_bytes), stroke: "var(--unpadded)" }),
        draw("path", { class: "curve", d: steps(curve.padded_bytes), stroke: "var(--padded)" }));
      if (limit) svg.append(draw("line", { class: "limit", x1: box.left, x2: width - box.right, y1: y(limit), y2: y(limit) }),
        draw("text", { x: width - box.right, y: y(limit) - 5, "text-anchor": "end", text: `usable ${bytes(limit)}` }));
      const px = x(curve.positions[curve.peak]), py = y(curve.padded_bytes[curve.peak]), end = px > width * 0.6;
      svg.append(draw("circle", { cx: px, cy: py, r: 5, fill: "var(--padded)", stroke: "var(--card)", "stroke-width": 2 }),
        draw("text", { class: "strong", x: px + (end ? -9 : 9), y: py - 8, "text-anchor": end ? "end" : "start", text: `peak ${bytes(curve.padded_bytes[curve.peak])}` }));
      const cursor = draw("line", { class: "cursor", y1: box.top, y2: height - box.bottom, visibility: "hidden" });
      svg.append(cursor);
      let at = curve.peak;
      const point = (index, clientY) => {
        at = Math.max(0, Math.min(last, index));
        const px = x(curve.positions[at]), frame = svg.getBoundingClientRect();
        cursor.setAttribute("x1", px); cursor.setAttribute("x2", px); cursor.setAttribute("visibility", "visible");
        const [padded, bare] = [curve.padded_bytes[at], curve.unpadded_bytes[at]];
        showTip([curve.instructions[at], `${bytes(padded)} with padding`, `${bytes(bare)} without (${times(padded / (bare || 1))})`, at === curve.peak && "the peak"],
          frame.left + px * frame.width / width, clientY ?? frame.top + y(padded));
      };
      const leave = () => { cursor.setAttribute("visibility", "hidden"); hideTip(); };
      svg.addEventListener("pointermove", (event) => {
        const frame = svg.getBoundingClientRect(), wanted = from + span * ((event.clientX - frame.left) * width / frame.width - box.left) / (width - box.left - box.right);
        let low = 0, high = last;
        while (low < high) { const middle = (low + high) >> 1; if (curve.positions[middle] < wanted) low = middle + 1; else high = middle; }
        point(low, event.clientY);
      });
      svg.addEventListener("pointerleave", leave);
      svg.addEventListener("focus", () => point(at));
      svg.addEventListener("blur", leave);
      svg.addEventListener("keydown", (event) => {
        const jump = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 20, PageDown: at + 20, Home: 0, End: last }[event.key];
        if (jump !== undefined) { event.preventDefault(); point(jump); }
      });
      return svg;
    });
  };

  const buffers = () => {
    if (!answer.buffers.length) return;
    const section = open("buffers"), expansion = (row) => row.unpadded_bytes ? row.padded_bytes / row.unpadded_bytes : null;
    const from = answer.buffers_from ? `${answer.buffers_from[0].toUpperCase()}${answer.buffers_from.slice(1)}. ` : "";
    section.append(caption(`${from}In a layout such as {3,0,2,1:T(8,128)} the first number names the dimension that lies in the 128 lanes, the second the one in the rows of a tile; both are rounded up to the tile. Small buffers are one row per kind.`));
    table(section, "Buffers alive at the peak", [
      { name: "Layer", of: (row) => row.layer || row.instruction, show: (row) => `${row.layer || row.instruction || "–"}${row.count > 1 ? ` (${row.count} buffers)` : ""}` },
      { name: "Kind", of: (row) => row.kind },
      { name: "Shape", of: (row) => row.shape, show: (row) => code(row.shape) },
      { name: "Layout", of: (row) => row.layout, show: (row) => code(row.layout) },
      { name: "Unpadded", number: true, of: (row) => row.unpadded_bytes, show: (row) => bytes(row.unpadded_bytes) },
      { name: "Padded", number: true, of: (row) => row.padded_bytes, show: (row) => bytes(row.padded_bytes) },
      { name: "Padding", number: true, title: "padded less unpadded", of: (row) => row.padded_bytes - row.unpadded_bytes, show: (row) => bytes(row.padded_bytes - row.unpadded_bytes) },
      { name: "Expansion", number: true, title: "padded over unpadded", of: expansion, show: (row) => times(expansion(row)) },
    ], answer.buffers, 5, "layer, kind or shape", (row) => [row.layer, row.instruction, row.kind, row.shape].join(" "));
  };

  const categories = () => {
    if (!answer.categories.length) return;
    const section = open("categories"), rows = answer.categories;
    section.append(caption("Share of the step's time by XProf's categories. Wasted is the share times what neither the matrix unit nor the memory made use of."),
      legend([["used", "var(--used)"], ["wasted", "var(--wasted)"], ["use unknown", "var(--c4)"]]));
    chart(section, (width) => {
      const line = 34, left = Math.min(230, width * 0.36), right = 120, room = width - left - right, height = rows.length * line + 4;
      const most = Math.max(...rows.map((row) => row.time_share));
      const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": "Time by category" });
      rows.forEach((row, index) => {
        const y = index * line + 6, whole = room * row.time_share / most, wasted = known(row.wasted_share) ? room * row.wasted_share / most : 0;
        const bar = draw("g", {}, draw("rect", { x: 0, y: y - 6, width, height: line, fill: "transparent" }),
          draw("text", { class: "strong", x: left - 10, y: y + 15, "text-anchor": "end", text: row.name }),
          draw("rect", { x: left, y, width: Math.max(1, whole - wasted), height: 22, rx: 3, fill: known(row.wasted_share) ? "var(--used)" : "var(--c4)" }),
          wasted ? draw("rect", { x: left + whole - wasted, y, width: wasted, height: 22, rx: 3, fill: "var(--wasted)" }) : null,
          draw("text", { class: "strong", x: left + whole + 8, y: y + 15, text: `${share(row.time_share)} · ${time(row.ms)}` }));
        svg.append(withTip(bar, [row.name, `${share(row.time_share)} of the step, ${time(row.ms)}, ${count(row.operations)} operations`,
          `flops utilisation ${share(row.flops_utilization)}`, `HBM utilisation ${share(row.hbm_utilization)}`, `wasted ${share(row.wasted_share)} of the step`,
          row.estimated_from_bytes_share > 0 && `${share(row.estimated_from_bytes_share)} of this time estimated from bytes`]));
      });
      return svg;
    });
  };

  const roofline = () => {
    const points = answer.operations.filter((row) => row.flops > 0 && row.bytes_accessed > 0 && row.ms > 0)
      .map((row) => ({ row, x: row.flops / row.bytes_accessed, y: row.flops / row.ms * 1000 }));
    if (!points.length || !chip) return;
    const section = open("roofline"), names = [...new Set(points.map((point) => point.row.category))];
    const paint = (category) => colour(Math.min(names.indexOf(category), 5));
    section.append(caption("One dot per operation: FLOPs per byte of memory traffic against FLOPs per second; the larger the dot, the more time. An operation on the roof uses all that the chip has."),
      legend(names.slice(0, 5).map((name) => [name, paint(name)]).concat(names.length > 5 ? [["other categories", colour(5)]] : []), "round"));
    chart(section, (width) => {
      const height = 380, box = { left: 64, right: 18, top: 14, bottom: 42 }, roof = (intensity) => Math.min(chip.peak_flops, intensity * chip.hbm_bytes_per_second);
      const low = (values) => 10 ** Math.floor(Math.log10(Math.min(...values))), high = (values) => 10 ** Math.ceil(Math.log10(Math.max(...values)));
      const ridge = chip.peak_flops / chip.hbm_bytes_per_second;
      const xs = [low(points.map((p) => p.x)), Math.max(high(points.map((p) => p.x)), high([ridge]))], ys = [low(points.map((p) => p.y)), high([chip.peak_flops, ...points.map((p) => p.y)])];
      const log = (value, [from, to], start, end) => start + (end - start) * Math.log(value / from) / Math.log(to / from);
      const x = (value) => log(value, xs, box.left, width - box.right), y = (value) => log(value, ys, height - box.bottom, box.top);
      const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": "Roofline" });
      for (let value = xs[0]; value <= xs[1] * 1.01; value *= 10) svg.append(draw("line", { class: "grid", x1: x(value), x2: x(value), y1: box.top, y2: height - box.bottom }),
        draw("text", { x: x(value), y: height - box.bottom + 17, "text-anchor": "middle", text: count(value) }));
      for (let value = ys[0]; value <= ys[1] * 1.01; value *= 10) svg.append(draw("line", { class: "grid", x1: box.left, x2: width - box.right, y1: y(value), y2: y(value) }),
        draw("text", { x: box.left - 8, y: y(value) + 4, "text-anchor": "end", text: flops(value) }));
      svg.append(draw("text", { x: (box.left + width) / 2, y: height - 6, "text-anchor": "middle", text: "FLOPs per byte of HBM traffic" }),
        draw("text", { x: 14, y: height / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${height / 2})`, text: "FLOPs per second" }),
        draw("path", { class: "roof", d: `M${x(xs[0])},${y(Math.max(ys[0], roof(xs[0])))}L${x(ridge)},${y(chip.peak_flops)}H${x(xs[1])}` }),
        draw("text", { class: "strong", x: x(ridge) - 10, y: y(chip.peak_flops) + 4, "text-anchor": "end", text: `${flops(chip.peak_flops)}FLOP/s per replica` }));
      const most = Math.max(...points.map((point) => point.row.ms));
      for (const { row, x: intensity, y: rate } of [...points].sort((a, b) => b.row.ms - a.row.ms)) {
        svg.append(withTip(draw("circle", { class: "dot", cx: x(intensity), cy: y(rate), r: 3.5 + 9 * Math.sqrt(row.ms / most), fill: paint(row.category), "fill-opacity": 0.75 }),
          [row.name, row.layer, row.category, `${time(row.ms)}, ${share(row.time_share)} of the step`, `${flops(rate)}FLOP/s, ${share(rate / roof(intensity))} of the roof there`]));
      }
      return svg;
    });
  };

  const operations = () => {
    if (!answer.operations.length) return;
    const section = open("operations"), how = { cycles: "", bytes: " (from bytes)", links: " (from links)", model: " (modelled)" };
    section.append(caption("The operations that take most time, each under the compiler's name. Open a fusion to see what shares its arithmetic, and what its convolutions lose of the matrix unit."));
    const inside = (row) => row.parts.length ? make("details", {}, make("summary", { text: row.name }), make("ul", { class: "parts" },
      ...row.parts.map((part) => make("li", { text: `${part.opcode}${part.count > 1 ? ` x ${part.count}` : ""} ${part.shape}${part.layer ? `, ${part.layer}` : ""}${known(part.share) ? `: ${share(part.share)}` : ""}${part.why ? `; at most ${share(part.fill)} of the matrix unit: ${part.why}` : ""}` })))) : row.name;
    table(section, "Top operations", [
      { name: "Operation", of: (row) => row.name, show: inside },
      { name: "Layer", of: (row) => row.layer },
      { name: "Pass", of: (row) => row.in_pass },
      { name: "Category", of: (row) => row.category },
      { name: "Time", number: true, of: (row) => row.ms, show: (row) => `${time(row.ms)}${how[row.estimated_from]}` },
      { name: "Share", number: true, of: (row) => row.time_share, show: (row) => share(row.time_share) },
      { name: "Flops util.", number: true, of: (row) => row.flops_utilization, show: (row) => share(row.flops_utilization) },
      { name: "Wasted", number: true, of: (row) => row.wasted_share, show: (row) => share(row.wasted_share) },
    ], answer.operations, 4, "name, layer, category or pass", (row) => [row.name, row.layer, row.category, row.in_pass].join(" "));
  };

  const levels = () => {
    if (!answer.levels.length) return;
    const section = open("levels");
    section.append(caption("Forward and backward apart."));
    table(section, "Time by level", [
      { name: "Level", of: (row) => row.name },
      { name: "Pass", of: (row) => row.in_pass },
      { name: "Time", number: true, of: (row) => row.ms, show: (row) => time(row.ms) },
      { name: "Share", number: true, of: (row) => row.time_share, show: (row) => share(row.time_share) },
      { name: "Flops util.", number: true, of: (row) => row.flops_utilization, show: (row) => share(row.flops_utilization) },
      { name: "Wasted", number: true, of: (row) => row.wasted_share, show: (row) => share(row.wasted_share) },
    ], answer.levels, 2);
  };

  const about = () => {
    const section = document.getElementById("about");
    section.append(make("p", { text: estimate }), make("p", { text: `Program: ${answer.program}. ${Object.entries(answer.versions).map(([name, version]) => `${name} ${version}`).join(", ")}` }));
    if (answer.notes.length) section.append(make("ul", { class: "notes" }, ...answer.notes.map((text) => make("li", { text }))));
    if (answer.failure) section.append(make("pre", { text: answer.failure }));
  };

  document.getElementById("title").textContent = `${answer.name} on ${answer.chip}`;
  document.getElementById("configuration").textContent = [
    known(answer.global_batch) && `global batch ${count(answer.global_batch)}, ${count(answer.per_core_batch)} per replica on ${answer.replicas} replicas`,
    answer.accumulation > 1 && `${answer.accumulation} micro-batches`, answer.image.length && `image ${answer.image.join(" x ")}`, answer.precision,
    answer.lowering !== "plain" && `lowering ${answer.lowering}`, answer.packing !== "none" && `packing ${answer.packing}`,
  ].filter(Boolean).join(" · ");
  [verdict, tiles, advice, memory, buffers, categories, roofline, operations, levels, about].forEach((part) => part());
})();
