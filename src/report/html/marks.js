
/** Marks against two axes, which C++ divided: a number's place is the scale's, a tick's text the answer's. */
forms.marks = drawing => {
  const wide = 640, letter = 6.8, lineHeight = 16, bottom = 54;
  const scales = {
    linear: number => number,
    logarithmic: number => Math.log10(number),
    symmetric: (number, axis) => Math.sign(number) * Math.log10(1 + Math.abs(number) / axis.least),
  };
  const scaled = (axis, number) => scales[axis.scale](number, axis);
  const placed = ([x, y]) => [scaled(drawing.x, x), scaled(drawing.y, y)];
  const share = (axis, number) =>
    (scaled(axis, number) - scaled(axis, axis.low)) / (scaled(axis, axis.high) - scaled(axis, axis.low));
  const labelled = drawing.series.flatMap(series => series.labelled ? series.marks : []);
  const items = drawing.series.flatMap((series, i) => series.marks.map((mark, j) => [i, j, mark]));
  const names = drawing.series.map(series => series.name);
  let chart;

  const height = width => top(width) + bottom + Math.max(
    drawing.y.lanes ? drawing.y.ticks.length * (width < wide ? 48 : 34) : 380, (labelled.length + 1) * lineHeight);
  const top = width => (names.length > 1 ? legendLines(names, width) * 24 : 0) + (drawing.y.title ? 34 : 24);
  const left = width => drawing.y.lanes
    ? (width < wide ? 112 : 250)
    : 16 + letter * Math.max(...drawing.y.ticks.map(tick => tick[1].length));
  const right = width => !labelled.length ? 28 : width < wide ? 124 : 250;
  /** Where a mark stands, in pixels. */
  const pixel = (x, y, width) => {
    const across = width - left(width) - right(width), down = height(width) - top(width) - bottom;
    const from = share(drawing.y, y);
    return [left(width) + share(drawing.x, x) * across, top(width) + (drawing.y.lanes ? from : 1 - from) * down];
  };

  /** Lines of the column of names, each as near to its mark as the others let it. */
  const linesOfNames = width => {
    const all = labelled.map(mark => ({mark, at: pixel(mark[0], mark[1], width)[1]})).sort((a, b) => a.at - b.at);
    let next = top(width), last = height(width) - bottom;
    for (const one of all) next = (one.at = Math.max(one.at, next)) + lineHeight;
    for (const one of all.reverse()) last = (one.at = Math.min(one.at, last)) - lineHeight;
    return new Map(all.map(one => [one.mark, one.at]));
  };

  /** Ticks whose texts have room side by side. */
  const ticksWithRoom = width => {
    const kept = new Set();
    let free = -Infinity;
    for (const tick of drawing.x.ticks) {
      const [at] = pixel(tick[0], drawing.y.low, width), half = tick[1].length * letter / 2;
      if (at - half < free) continue;
      free = at + half + 8;
      kept.add(tick);
    }
    return kept;
  };

  const axis = (part, ink, kept, more) => ({
    type: 'value', min: scaled(part, part.low), max: scaled(part, part.high), inverse: part.lanes,
    name: part.title, nameTextStyle: {color: ink.faint},
    axisLine: {show: true, lineStyle: {color: ink.line}},
    axisTick: {show: false, customValues: part.ticks.map(tick => scaled(part, tick[0]))},
    splitLine: {lineStyle: {color: ink.line}},
    ...more,
    axisLabel: {
      color: ink.faint, customValues: part.ticks.map(tick => scaled(part, tick[0])), formatter: value => {
        const tick = part.ticks.reduce((best, one) =>
          Math.abs(scaled(part, one[0]) - value) < Math.abs(scaled(part, best[0]) - value) ? one : best);
        return kept.has(tick) ? tick[1] : '';
      },
      ...more.axisLabel,
    },
  });

  const marks = (series, ink, width, lines) => {
    const hue = ink.hues[series.hue];
    return {
      type: 'scatter', name: series.name, cursor: 'default',
      data: series.marks.map(mark => ({value: placed(mark), name: mark[3], detail: mark[4], share: mark[2]})),
      symbolSize: (value, point) =>
        point.data.share > 0 ? Math.max(7, 52 * Math.sqrt(point.data.share)) : 9,
      itemStyle: {color: series.hollow ? 'transparent' : hue, borderColor: series.hollow ? hue : ink.paper,
                  borderWidth: series.hollow ? 1.5 : 0.7, opacity: 0.85},
      label: {show: series.labelled, formatter: '{b}', color: ink.ink, fontSize: 12, textBorderWidth: 0,
              width: right(width) - 30, overflow: 'truncate'},
      labelLayout: series.labelled && (point => ({
        x: width - right(width) + 26, y: lines.get(series.marks[point.dataIndex]), align: 'left', verticalAlign: 'middle',
      })),
      labelLine: {show: series.labelled, length2: 4, lineStyle: {color: ink.line}},
    };
  };
  const joint = (series, ink) => ({
    type: 'line', name: series.name, data: series.marks.map(placed), symbol: 'none', silent: true, z: 1,
    lineStyle: {color: ink.hues[series.hue], width: 1.5}, itemStyle: {color: ink.hues[series.hue]},
  });
  /** A line with its name above the point that has it, where it is not cut off. */
  const line = (one, ink, width) => {
    const [at] = pixel(...one.points[one.name_at], width), room = one.name.length * letter;
    const end = labelled.length ? width - right(width) + 12 : width - 4, begin = Math.max(4, Math.min(at + 2, end - room));
    return {
      type: 'line', data: one.points.map(placed), symbol: 'none', silent: true, z: 1,
      lineStyle: {color: ink.faint, width: 1.5}, itemStyle: {color: ink.faint},
      markPoint: one.name && {
        symbol: 'circle', symbolSize: 1, silent: true, itemStyle: {color: ink.faint},
        label: {formatter: one.name, color: ink.faint, align: 'left', position: [begin - at, -18], textBorderWidth: 0},
        data: [{coord: placed(one.points[one.name_at])}],
      },
    };
  };

  return {
    height,
    option: (ink, width) => {
      const lines = linesOfNames(width);
      return {
        grid: {left: left(width), right: right(width), top: top(width), bottom},
        legend: legendOf(names, ink, {show: names.length > 1}),
        tooltip: tooltip(ink, point => tipOf(point.name, point.data.detail)),
        xAxis: axis(drawing.x, ink, ticksWithRoom(width), {nameLocation: 'middle', nameGap: 30}),
        yAxis: axis(drawing.y, ink, new Set(drawing.y.ticks), {
          nameTextStyle: {color: ink.faint, align: 'left', padding: [0, 0, 4, 10 - left(width)]},
          axisLabel: drawing.y.lanes ? {width: left(width) - 14, overflow: 'break', lineHeight: 14} : {},
        }),
        series: [...drawing.series.map(series => marks(series, ink, width, lines)),
                 ...drawing.series.filter(series => series.joined).map(series => joint(series, ink)),
                 ...drawing.lines.map(one => line(one, ink, width))],
      };
    },
    count: () => items.length,
    show: i => {
      const [seriesIndex, dataIndex, mark] = items[i];
      chart.dispatchAction({type: 'showTip', seriesIndex, dataIndex});
      return mark[3] + ': ' + mark[4];
    },
    start: made => { chart = made; },
  };
};
