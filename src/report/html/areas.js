
/** Areas in proportion to their numbers, within those that they are part of. */
forms.areas = drawing => {
  const leaves = [];
  const collect = area => area.parts ? area.parts.forEach(collect) : leaves.push(area);
  drawing.areas.forEach(collect);
  const all = drawing.areas.reduce((sum, area) => sum + area.number, 0);
  let chart;

  /** Black or white, whichever is read better on a colour. */
  const on = color => {
    const [r, g, b] = [1, 3, 5].map(at => parseInt(color.slice(at, at + 2), 16) / 255);
    return 0.2126 * r ** 2.2 + 0.7152 * g ** 2.2 + 0.0722 * b ** 2.2 > 0.22 ? '#000000' : '#ffffff';
  };
  const node = (area, ink, path) => {
    const color = ink.hues[area.hue];
    return {
      name: area.name, value: area.number, text: area.text, id: path,
      itemStyle: {color, borderColor: area.parts ? color : ink.paper},
      label: {color: on(color)}, upperLabel: {color: on(color)},
      children: area.parts && area.parts.map((part, i) => node(part, ink, path + '.' + i)),
    };
  };
  const height = width => Math.min(460, Math.max(300, width * 0.5));
  /** Whether an area has room for a text: the side of a square as large. */
  const hasRoom = (point, width, side) => Math.sqrt(point.value / all * width * height(width)) > side;

  return {
    height,
    option: (ink, width) => ({
      tooltip: tooltip(ink, point => point.data.text && tipOf(point.name, point.data.text)),
      series: [{
        type: 'treemap', roam: false, nodeClick: false, breadcrumb: {show: false},
        left: 0, right: 0, top: 0, bottom: 0, visibleMin: 0,
        data: drawing.areas.map((area, i) => node(area, ink, String(i))),
        label: {overflow: 'truncate', fontSize: 12, lineHeight: 15, padding: [2, 4],
                formatter: point => hasRoom(point, width, 60) ? point.name + '\n' + point.data.text : ''},
        upperLabel: {show: true, height: 20, overflow: 'truncate', padding: [0, 4],
                     formatter: point => hasRoom(point, width, 90) ? point.name + ' ' + point.data.text : ''},
        itemStyle: {gapWidth: 1, borderWidth: 1},
        levels: [{itemStyle: {borderWidth: 0, gapWidth: 3, borderColor: ink.paper}, upperLabel: {show: false}},
                 {itemStyle: {borderWidth: 2, gapWidth: 1}}, {itemStyle: {borderWidth: 0.5, gapWidth: 1}}],
      }],
    }),
    count: () => leaves.length,
    show: i => {
      chart.dispatchAction({type: 'showTip', seriesIndex: 0, name: leaves[i].name});
      return leaves[i].name + ': ' + leaves[i].text;
    },
    start: made => { chart = made; },
  };
};
