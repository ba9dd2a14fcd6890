
/** A step for an axis of bytes: 1, 2, 5, ... of its unit, or a half of the next. */
function byteStep(high) {
  let unit = 1;
  while (high / unit >= 1024) unit *= 1024;
  const most = 6, ladder = [1, 2, 5, 10, 20, 50, 100, 200, 500];
  return unit * (high / unit < 3 ? 0.5 : ladder.find(step => high / unit / step <= most) ?? 500);
}

/** Draws a figure's chart, and has the keyboard walk through it. */
function startFigure(figure, drawing, palette) {
  const box = figure.querySelector('.drawing'), reading = figure.querySelector('.reading');
  const say = text => { reading.textContent = text; };
  const theme = () => document.documentElement.dataset.theme;
  const form = forms[drawing.form](drawing, {say, byteStep, ink: () => inkOf(theme(), palette)});
  let at = -1;
  box.style.height = form.height(box.clientWidth) + 'px';
  const chart = echarts.init(box, null, {renderer: 'svg'});
  const draw = () => {
    box.style.height = form.height(box.clientWidth) + 'px';
    chart.dispatchAction({type: 'hideTip'});  // a tip that waits to be shown again would miss its element
    chart.resize();
    const ink = inkOf(theme(), palette);
    chart.setOption({animation: false, textStyle: {fontFamily: getComputedStyle(document.body).fontFamily}, ...form.option(ink, box.clientWidth)}, true);
    if (form.redrawn) form.redrawn();
  };
  draw();
  if (form.start) form.start(chart, draw, reading);
  box.addEventListener('keydown', event => {
    const now = at < 0 && form.at ? form.at() : at, end = form.count() - 1;
    const to = {ArrowRight: Math.min(now + 1, end), ArrowLeft: Math.max(now - 1, 0), Home: 0, End: end}[event.key];
    if (to === undefined || end < 0) return;
    event.preventDefault();
    at = to;
    say(form.show(at));
  });
  return draw;
}

async function startPage() {
  const button = document.getElementById('theme'), root = document.documentElement;
  const figures = typeof echarts === 'undefined' ? [] : [...document.querySelectorAll('figure.chart')];
  const dark = matchMedia('(prefers-color-scheme: dark)');
  let draws = [], before = '', waiting = 0;
  const setTheme = theme => {
    root.dataset.theme = theme;
    button.textContent = theme === 'dark' ? 'Light' : 'Dark';
    draws.forEach(draw => draw());
  };
  setTheme(dark.matches ? 'dark' : 'light');
  button.hidden = false;
  button.addEventListener('click', () => setTheme(root.dataset.theme === 'dark' ? 'light' : 'dark'));
  dark.addEventListener('change', () => setTheme(dark.matches ? 'dark' : 'light'));
  addEventListener('beforeprint', () => { before = root.dataset.theme; setTheme('light'); });
  addEventListener('afterprint', () => setTheme(before));
  addEventListener('resize', () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => draws.forEach(draw => draw()));
  });
  const {palette, charts} = await unpacked('data');
  draws = figures.map((figure, i) => startFigure(figure, charts[i], palette));
}

const started = startPage();
