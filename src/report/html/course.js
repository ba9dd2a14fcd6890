
/**
 * Memory over the events of a step, stacked by kind. A column stands for many events and shows the moment at which most
 * is allocated, so that no peak is lost; nearer columns are fewer events.
 */
forms.course = (drawing, tools) => {
  const count = drawing.events.length, kinds = drawing.kinds.length, columns = 480, listed = 12;
  const allocated = new Float64Array(count), reserved = new Float64Array(count);
  const byKind = new Float64Array(count * kinds);
  let first = 0, last = count, held = Math.min(drawing.peak, count - 1), moments = [], pinned = false, chart;

  const storageOf = event => drawing.events[event] < 0 ? -1 - drawing.events[event] : drawing.events[event];
  const nameOf = storage => drawing.names[drawing.name[storage]];
  for (let event = 0, next = 0; event < count; ++event) {
    const storage = storageOf(event), bytes = drawing.events[event] < 0 ? -drawing.bytes[storage] : drawing.bytes[storage];
    if (event > 0) byKind.copyWithin(event * kinds, (event - 1) * kinds, event * kinds);
    byKind[event * kinds + drawing.kind[storage]] += bytes;
    allocated[event] = (event > 0 ? allocated[event - 1] : 0) + bytes;
    while (next < drawing.reserved.length && drawing.reserved[next][0] <= event) ++next;
    reserved[event] = next > 0 ? drawing.reserved[next - 1][1] : 0;
  }
  const present = drawing.kinds.map((_, kind) => byKind.some((bytes, at) => at % kinds === kind && bytes > 0));

  /** The highest event of each column in view. */
  const choose = () => {
    moments = [];
    const step = Math.max(1, (last - first) / columns);
    for (let at = first; at < last; at += step) {
      let best = Math.floor(at);
      const end = Math.min(last, Math.max(best + 1, Math.floor(at + step)));
      for (let event = best; event < end; ++event) if (allocated[event] > allocated[best]) best = event;
      moments.push(best);
    }
  };
  const stretchAt = event => drawing.stretches.find(([, , begin, end]) => begin <= event && event < end);
  const phaseOf = event => {
    const found = stretchAt(event);
    return found ? [found[0], found[1]].filter(Boolean).join(', ') : 'between two phases';
  };

  /** Names of the stretches in view, side by side; neighbours without room for their own share their group's. */
  const namedStretches = width => {
    const room = ([, , begin, end]) => (Math.min(end, last) - Math.max(begin, first)) / (last - first) * width;
    const shown = [];
    for (const stretch of drawing.stretches) {
      const [group, name, begin, end] = stretch, previous = shown[shown.length - 1];
      if (end <= first || begin >= last) continue;
      const narrow = room(stretch) < name.length * 6.5 + 10;
      if (previous && previous.group === group && narrow && previous.narrow) {
        previous.end = end;
        previous.name = group;
      } else {
        shown.push({group, name, begin, end, narrow});
      }
    }
    return shown;
  };

  /** What is alive after an event, in the order in which it was allocated. */
  const aliveAt = event => {
    const alive = new Set();
    for (let i = 0; i <= event; ++i) {
      if (drawing.events[i] < 0) alive.delete(storageOf(i)); else alive.add(storageOf(i));
    }
    return [...alive];
  };
  /** The tensor whose place in the stack is at so many bytes. */
  const tensorAt = (alive, bytes) => {
    for (let kind = 0; kind < kinds; ++kind) {
      for (const storage of alive) {
        if (drawing.kind[storage] !== kind) continue;
        bytes -= drawing.bytes[storage];
        if (bytes < 0) return storage;
      }
    }
    return -1;
  };

  const fill = (table, caption, rows, ink) => {
    table.replaceChildren();
    table.createCaption().textContent = caption;
    for (const [name, bytes, hue] of rows) {
      const row = table.insertRow(), cell = row.insertCell();
      const mark = element('i', '', cell);
      mark.style.background = ink.hues[hue];
      cell.append(name);
      const number = row.insertCell();
      number.className = 'right';
      number.textContent = sized(bytes);
    }
  };
  const panel = element('div', '');
  panel.className = 'moment';
  const byKindTable = element('table', '', panel), largestTable = element('table', '', panel);

  /** Says an event: what it does, and what is alive after it. */
  const tell = (event, bytes) => {
    held = event;
    const ink = tools.ink(), alive = aliveAt(event), storage = storageOf(event);
    fill(byKindTable, 'Alive', drawing.kinds.map((kind, i) => [kind.name, byKind[event * kinds + i], kind.hue])
      .filter(row => row[1] > 0), ink);
    const largest = [...alive].sort((a, b) => drawing.bytes[b] - drawing.bytes[a] || a - b).slice(0, listed);
    fill(largestTable, 'The largest of ' + alive.length + ' tensors', largest.map(
      one => [nameOf(one), drawing.bytes[one], drawing.kinds[drawing.kind[one]].hue]), ink);
    const under = bytes === undefined ? -1 : tensorAt(alive, bytes);
    return (under < 0 ? '' : 'Under the cursor: ' + nameOf(under) + ', ' + sized(drawing.bytes[under]) + '. ') +
      'Event ' + event + (event === drawing.peak ? ', the peak' : '') + ': ' + phaseOf(event) + '; ' +
      (drawing.events[event] < 0 ? 'frees ' : 'allocates ') + sized(drawing.bytes[storage]) + ', ' + nameOf(storage) +
      '. ' + sized(allocated[event]) + ' allocated, ' + sized(reserved[event]) + ' reserved.';
  };

  const stretchSeries = (ink, width) => ({
    type: 'custom', xAxisIndex: 1, yAxisIndex: 1, silent: true, tooltip: {show: false},
    data: namedStretches(width).map(one => [one.begin, one.end, one.name]),
    renderItem: (params, api) => {
      const [left] = api.coord([Math.max(api.value(0), first), 0]), [right] = api.coord([Math.min(api.value(1), last), 0]);
      const name = namedStretches(width)[params.dataIndex].name, box = params.coordSys;
      const shows = right - left > name.length * 6.2 + 6;
      return {type: 'group', children: [
        {type: 'rect', shape: {x: left, y: box.y, width: Math.max(1, right - left - 1), height: box.height},
         style: {fill: ink.line}},
        {type: 'text', ignore: !shows,
         style: {text: name, x: left + 4, y: box.y + box.height / 2, verticalAlign: 'middle', fill: ink.ink, fontSize: 11}},
      ]};
    },
  });
  const above = () => Math.max(reserved.reduce((a, b) => Math.max(a, b), 1), drawing.failure ? drawing.capacity : 0);
  const capacityShows = () => drawing.capacity > 0 && drawing.capacity < 2.5 * above();
  const highest = () => Math.max(above(), capacityShows() ? drawing.capacity : 0) * 1.06;

  const verticals = ink => {
    const lines = [{xAxis: drawing.peak, label: {formatter: 'peak ' + sized(allocated[drawing.peak])}}];
    if (drawing.failure) {
      lines.push({xAxis: count, lineStyle: {color: ink.bad, width: 2},
                  label: {formatter: 'fails: ' + sized(drawing.failure.bytes) + ' asked for', color: ink.bad}});
    }
    for (const one of lines) {  // within the drawing, whichever side has room
      const right = (one.xAxis - first) / (last - first) > 0.5;
      one.label = {position: 'end', align: right ? 'right' : 'left', color: ink.ink, distance: 4, ...one.label};
    }
    if (drawing.failure && drawing.peak > count * 0.7) lines[0].label.distance = 20;
    return lines.filter(one => one.xAxis >= first && one.xAxis <= last);
  };

  return {
    height: width => width < 640 ? 420 : 480,
    option: (ink, width) => {
      choose();
      const shown = drawing.kinds.map((_, kind) => kind).filter(kind => present[kind]);
      const left = 76, axis = {type: 'value', min: first, max: last, splitLine: {show: false}, axisTick: {show: false}};
      const names = [...shown.map(kind => drawing.kinds[kind].name), 'reserved'];
      const top = legendLines(names, width) * 24 + 40;
      const column = value => moments.map(event => [event, value(event)]);
      /** Everything up to a kind: painted from the highest down, each covers what is not its own. */
      const upTo = (event, kind) => shown.reduce((sum, one) => one <= kind ? sum + byKind[event * kinds + one] : sum, 0);
      return {
        legend: legendOf(names, ink, {selectedMode: false}),
        grid: [{left, right: 30, top, bottom: 96}, {left, right: 30, bottom: 74, height: 18}],
        tooltip: {...tooltip(ink, points => tipOf(phaseOf(points[0].value[0]), 'event ' + points[0].value[0] + ': ' +
          sized(allocated[points[0].value[0]]) + ' allocated, ' + sized(reserved[points[0].value[0]]) + ' reserved')),
                  trigger: 'axis', axisPointer: {type: 'line', lineStyle: {color: ink.ink}}},
        xAxis: [{...axis, axisLabel: {show: false}, axisLine: {lineStyle: {color: ink.line}}},
                {...axis, gridIndex: 1, axisLine: {show: false}, axisLabel: {color: ink.faint, hideOverlap: true},
                 name: 'events', nameLocation: 'start', nameGap: 8, nameTextStyle: {color: ink.faint, verticalAlign: 'top'}}],
        yAxis: [{type: 'value', min: 0, nameTextStyle: {color: ink.faint, align: 'left', padding: [0, 0, 8, -70]},
                 name: drawing.capacity > 0 && !capacityShows() ? 'capacity ' + sized(drawing.capacity) + ': beyond the drawing' : '',
                 max: highest(), axisLabel: {color: ink.faint, formatter: sized, showMaxLabel: false},
                 interval: tools.byteStep(highest()), splitLine: {lineStyle: {color: ink.line}}},
                {type: 'value', gridIndex: 1, min: 0, max: 1, show: false}],
        dataZoom: [{type: 'slider', xAxisIndex: [0, 1], bottom: 8, height: 24, filterMode: 'none', realtime: false,
                    textStyle: {color: ink.faint}, labelFormatter: value => String(Math.round(value)),
                    startValue: first, endValue: last, brushSelect: false, showDataShadow: false}],
        series: [
          ...[...shown].reverse().map(kind => ({
            type: 'line', name: drawing.kinds[kind].name, step: 'end', symbol: 'none',
            data: column(event => upTo(event, kind)), lineStyle: {width: 0.4, color: ink.paper},
            itemStyle: {color: ink.hues[drawing.kinds[kind].hue]},
            areaStyle: {color: ink.hues[drawing.kinds[kind].hue], opacity: 1}, emphasis: {disabled: true},
          })),
          {type: 'line', name: 'reserved', step: 'end', symbol: 'none', data: column(event => reserved[event]),
           lineStyle: {width: 1.5, type: 'dotted', color: ink.ink}, itemStyle: {color: ink.ink},
           emphasis: {disabled: true},
           markLine: {silent: true, symbol: 'none', lineStyle: {color: ink.ink, type: 'solid', width: 1}, data: [
             ...verticals(ink),
             ...(capacityShows() ? [{yAxis: drawing.capacity, lineStyle: {color: ink.bad, type: 'dashed', width: 1.5},
                label: {formatter: 'capacity ' + sized(drawing.capacity), position: 'insideStartTop', color: ink.bad,
                        backgroundColor: ink.paper, padding: [1, 3]}}]
               : [])]}},
          stretchSeries(ink, width - left - 30),
        ],
      };
    },
    count: () => moments.length,
    at: () => moments.reduce((best, event, i) => Math.abs(event - held) < Math.abs(moments[best] - held) ? i : best, 0),
    show: i => {
      chart.dispatchAction({type: 'showTip', seriesIndex: 0, dataIndex: i});
      return tell(moments[i]);
    },
    redrawn: () => { if (chart) tell(held); },
    start: (made, redraw, box) => {
      chart = made;
      box.after(panel);
      tools.say(tell(held));
      const under = pointer => {
        const place = [pointer.offsetX, pointer.offsetY];
        if (!chart.containPixel({gridIndex: 0}, place)) return;
        const [event, bytes] = chart.convertFromPixel({gridIndex: 0}, place);
        const nearest = moments.findLast(one => one <= event) ?? moments[0];
        tools.say(tell(nearest, bytes));
      };
      chart.getZr().on('mousemove', pointer => { if (!pinned) under(pointer); });
      chart.getZr().on('click', pointer => { pinned = !pinned; under(pointer); });
      chart.on('datazoom', () => {
        const {startValue, endValue} = chart.getOption().dataZoom[0];
        const least = Math.min(count, 16);
        first = Math.max(0, Math.min(Math.floor(startValue), count - least));
        last = Math.min(count, Math.max(Math.ceil(endValue), first + least));
        redraw();
      });
    },
  };
};
