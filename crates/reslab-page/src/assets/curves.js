// The curves of all runs: a figure is chosen, arms and seeds are switched, and every value can be read: under the pointer,
// and at the step of the slider in the table, which is the legend too.
(() => {
  const place = document.getElementById('chart');
  if (!place) return;
  const data = JSON.parse(document.getElementById('data').textContent);
  const SVG = 'http://www.w3.org/2000/svg';
  const EDGE = { left: 56, right: 14, top: 12, bottom: 40 };

  // Distances of steps become steps.
  for (const series of data.series) {
    let step = 0;
    series.x = series.x.map(distance => (step += distance));
  }
  const series = (run, key) => data.series[run.curves[key]];
  const label = run => `${data.arms[run.arm].name}, seed ${run.seed}`;
  const last = Math.max(1, ...data.series.map(one => one.x.at(-1) ?? 0));
  const state = {
    figure: data.figures[0], log: data.figures[0].log, single: true, step: last,
    arms: new Set(data.arms.keys()), seeds: new Set(data.seeds), emphasis: null,
  };

  // ---- elements
  function make(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }
  function shape(name, attributes = {}, text) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }
  const look = arm => `line${data.arms[arm].line} dash${data.arms[arm].dash}`;
  function swatch(arm) {
    const svg = shape('svg', { class: `swatch ${look(arm)}`, viewBox: '0 0 26 8', 'aria-hidden': 'true' });
    svg.append(shape('path', { d: 'M1 4H25' }));
    return svg;
  }

  // A name that may be broken before its axes and a plus, and between its axes.
  function named(arm, name) {
    const parts = name.split(/(?=[[+])|(?<=,)/).flatMap((part, at) => (at ? [make('wbr'), part] : [part]));
    return make('span', { class: 'arm' }, swatch(arm), make('span', {}, ...parts));
  }

  // ---- figures
  const isShown = run => state.arms.has(run.arm) && state.seeds.has(run.seed) && run.curves[state.figure.key] !== undefined;
  const shown = () => data.runs.filter(isShown);

  // The place in a sorted list that is nearest to a step.
  function nearest(steps, step) {
    let [low, high] = [0, steps.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < step) low = middle + 1; else high = middle;
    }
    return low > 0 && step - steps[low - 1] <= steps[low] - step ? low - 1 : low;
  }
  function reading(run, step) {
    const { x, y } = series(run, state.figure.key);
    const at = nearest(x, step);
    return { step: x[at], value: y[at], at };
  }
  function meanAt(run, step) {
    const curve = state.figure.mean && series(run, state.figure.mean);
    return curve ? curve.y[nearest(curve.x, step)] : null;
  }

  // ---- drawing
  const svg = shape('svg', { role: 'img' });
  const tip = make('div', { class: 'tip', 'aria-hidden': 'true', hidden: '' });
  const behind = shape('g');
  const lines = shape('g');
  const cursor = shape('g');
  const frame = shape('g');
  svg.append(frame, behind, lines, cursor);
  let view = null;

  function scales(width, height) {
    const { key: own, mean } = state.figure;
    const keys = [state.single || !mean ? own : null, mean];
    let [low, high] = [Infinity, -Infinity];
    for (const run of shown()) {
      for (const key of keys.filter(key => key && run.curves[key] !== undefined)) {
        for (const y of series(run, key).y) {
          if (y === null || (state.log && y <= 0)) continue;
          low = Math.min(low, y);
          high = Math.max(high, y);
        }
      }
    }
    if (low > high) [low, high] = state.log ? [1, 10] : [0, 1];
    const room = state.log ? (high / low) ** .04 : (high - low) * .04;
    const y = state.log ? Scale.logarithmic(low / room, high * room, 7) : Scale.even(low - room, high + room, 7);
    const x = Scale.even(0, last, width < 500 ? 4 : 8);
    const across = width - EDGE.left - EDGE.right;
    const up = height - EDGE.top - EDGE.bottom;
    return {
      width, height, x, y,
      toX: step => EDGE.left + across * step / last,
      toStep: place => Math.round(Math.min(1, Math.max(0, (place - EDGE.left) / across)) * last),
      toY: value => EDGE.top + up * (1 - y.part(value)),
    };
  }

  function path(curve) {
    let [d, pen] = ['', 'M'];
    curve.x.forEach((step, at) => {
      const value = curve.y[at];
      if (value === null || (state.log && value <= 0)) { pen = 'M'; return; }
      d += `${pen}${view.toX(step).toFixed(1)} ${view.toY(value).toFixed(1)}`;
      pen = 'L';
    });
    return d;
  }

  function drawFrame() {
    const { width, height, x, y, toX, toY } = view;
    const right = width - EDGE.right;
    const bottom = height - EDGE.bottom;
    frame.replaceChildren();
    for (const tick of y.ticks) {
      frame.append(shape('path', { class: 'grid', d: `M${EDGE.left} ${toY(tick).toFixed(1)}H${right}` }));
      frame.append(shape('text', { x: EDGE.left - 8, y: toY(tick) + 4, 'text-anchor': 'end' }, Scale.tick(tick)));
    }
    for (const tick of x.ticks) {
      frame.append(shape('path', { class: 'axis', d: `M${toX(tick).toFixed(1)} ${bottom}v4` }));
      frame.append(shape('text', { x: toX(tick), y: bottom + 18, 'text-anchor': 'middle' }, tick.toLocaleString('en')));
    }
    frame.append(shape('path', { class: 'axis', d: `M${EDGE.left} ${bottom}H${right}` }));
    frame.append(shape('text', { x: (EDGE.left + right) / 2, y: height - 4, 'text-anchor': 'middle' }, 'optimizer step'));
  }

  function drawLine(run) {
    const group = shape('g', { class: look(run.arm) });
    const curve = series(run, state.figure.key);
    const mean = state.figure.mean && series(run, state.figure.mean);
    group.append(shape('path', { class: 'strong', d: path(mean || curve) }));
    if (curve.x.length <= 40) {
      curve.x.forEach((step, at) => curve.y[at] !== null && group.append(
        shape('circle', { class: 'dot', cx: view.toX(step), cy: view.toY(curve.y[at]), r: 4 })));
    }
    for (const step of run.spikes[state.figure.key] ?? []) {
      const { value } = reading(run, step);
      if (value > 0) group.append(mark(step, value, 'M-4 -9H4L0 -3Z'));
    }
    if (run.end !== null) {
      const at = curve.y.findLastIndex(value => value !== null);
      if (at >= 0) group.append(mark(curve.x[at], curve.y[at], 'M-5 -5L5 5M-5 5L5 -5'));
    }
    group.run = run;
    return group;
  }
  function drawSteps(run) {
    const group = shape('g', { class: look(run.arm) });
    group.append(shape('path', { class: 'faint', d: path(series(run, state.figure.key)) }));
    group.run = run;
    return group;
  }
  function mark(step, value, d) {
    return shape('path', { class: 'mark', d, style: 'stroke-dasharray:none', transform: `translate(${view.toX(step)} ${view.toY(value)})` });
  }

  function draw() {
    const width = Math.max(280, Math.round(figure.clientWidth));
    const height = Math.round(Math.min(460, Math.max(280, width * .5)));
    view = scales(width, height);
    svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    const all = shown();
    svg.setAttribute('aria-label', `${state.figure.name} against step: ${all.length} runs. Their values stand in the table below.`);
    drawFrame();
    // Single steps stand behind all means.
    behind.replaceChildren(...(state.single && state.figure.mean ? all.map(drawSteps) : []));
    lines.replaceChildren(...all.map(drawLine));
    emphasize();
    read();
  }
  function emphasize() {
    for (const group of [...behind.children, ...lines.children]) group.classList.toggle('dim', Boolean(state.emphasis) && !state.emphasis(group.run));
  }

  // ---- values
  const legend = make('table', { class: 'legend' });
  const slider = make('input', { type: 'range', min: 0, max: last, step: 1, value: last, id: 'at-step' });
  const output = make('output', { for: 'at-step' });
  const caption = make('figcaption');
  const cells = new Map();

  function read() {
    const x = view.toX(state.step).toFixed(1);
    cursor.replaceChildren(shape('path', { class: 'cursor', d: `M${x} ${EDGE.top}V${view.height - EDGE.bottom}` }));
    slider.value = state.step;
    slider.setAttribute('aria-valuetext', `step ${state.step}`);
    output.textContent = `step ${state.step.toLocaleString('en')}`;
    for (const run of data.runs) {
      const cell = cells.get(run);
      const has = run.curves[state.figure.key] !== undefined;
      const { step, value } = has ? reading(run, state.step) : {};
      cell.textContent = has ? Scale.show(value, 4) : '-';
      cell.title = has ? `step ${step}` : '';
      cell.classList.toggle('off', !isShown(run));
    }
  }

  function toggle(set, key, button) {
    if (!set.delete(key)) set.add(key);
    button.setAttribute('aria-pressed', String(set.has(key)));
    draw();
  }
  function switcher(set, key, emphasis, ...children) {
    const button = make('button', { type: 'button', 'aria-pressed': 'true' }, ...children);
    button.addEventListener('click', () => toggle(set, key, button));
    const point = is => { state.emphasis = is; emphasize(); };
    button.addEventListener('pointerenter', () => point(emphasis));
    button.addEventListener('pointerleave', () => point(null));
    button.addEventListener('focus', () => button.matches(':focus-visible') && point(emphasis));
    button.addEventListener('blur', () => point(null));
    return button;
  }
  function buildLegend() {
    const head = make('tr', {}, make('th', { scope: 'col' }, 'arm'));
    for (const seed of data.seeds) {
      head.append(make('th', { scope: 'col', class: 'number' }, switcher(state.seeds, seed, run => run.seed === seed, `seed ${seed}`)));
    }
    const body = make('tbody');
    data.arms.forEach(({ name }, arm) => {
      const row = make('tr', {}, make('th', { scope: 'row' }, switcher(state.arms, arm, run => run.arm === arm, named(arm, name))));
      for (const seed of data.seeds) {
        const cell = make('td', { class: 'number' });
        for (const run of data.runs.filter(run => run.arm === arm && run.seed === seed)) cells.set(run, cell);
        row.append(cell);
      }
      body.append(row);
    });
    legend.append(make('caption', { class: 'hidden' }, 'Values at the chosen step; arms and seeds switch on and off'), make('thead', {}, head), body);
  }
  function switchAll(on) {
    state.arms = fill(state.arms, data.arms.keys(), on);
    state.seeds = fill(state.seeds, data.seeds, true);
    for (const button of legend.querySelectorAll('tbody button')) button.setAttribute('aria-pressed', String(on));
    for (const button of legend.querySelectorAll('thead button')) button.setAttribute('aria-pressed', 'true');
    draw();
  }
  function fill(set, keys, on) {
    set.clear();
    if (on) for (const key of keys) set.add(key);
    return set;
  }

  // ---- pointer
  function point(event) {
    const box = svg.getBoundingClientRect();
    const scale = view.width / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    state.step = view.toStep(x);
    read();
    let best = null;
    for (const run of shown()) {
      const { step, value } = reading(run, state.step);
      const mean = meanAt(run, state.step);
      for (const seen of state.single || mean === null ? [mean, value] : [mean]) {
        if (seen === null || (state.log && seen <= 0)) continue;
        const away = Math.abs(view.toY(seen) - y);
        if (!best || away < best.away) best = { away, run, step, value, mean, seen };
      }
    }
    tip.hidden = !best;
    if (!best) return;
    const unit = state.figure.unit === '%' ? ' %' : '';
    const mean = best.mean === null ? '' : `, mean of ${data.mean_of} steps ${Scale.show(best.mean, 6)}`;
    tip.replaceChildren(label(best.run), make('br'), `step ${best.step}: ${Scale.show(best.value, 6)}${unit}${mean}`);
    cursor.append(shape('circle', { class: `dot ${look(best.run.arm)}`, cx: view.toX(best.step), cy: view.toY(best.seen), r: 4.5 }));
    state.emphasis = run => run === best.run;
    emphasize();
    const room = figure.clientWidth - tip.offsetWidth - 4;
    tip.style.left = `${Math.max(0, Math.min(room, x / scale + 12))}px`;
    tip.style.top = `${Math.max(0, y / scale - tip.offsetHeight - 10)}px`;
  }
  svg.addEventListener('pointermove', point);
  svg.addEventListener('pointerdown', point);
  svg.addEventListener('pointerleave', () => { tip.hidden = true; state.emphasis = null; emphasize(); read(); });
  slider.addEventListener('input', () => { state.step = Number(slider.value); read(); });

  // ---- controls
  function check(text, key) {
    const box = make('input', { type: 'checkbox' });
    box.checked = state[key];
    box.addEventListener('change', () => { state[key] = box.checked; draw(); });
    return [make('label', { class: 'check' }, box, text), box];
  }
  const [logLabel, logBox] = check('logarithmic', 'log');
  const [singleLabel] = check('single steps', 'single');
  function choose(chosen) {
    state.figure = chosen;
    state.log = logBox.checked = chosen.log;
    singleLabel.hidden = !chosen.mean;
    const parts = [];
    if (chosen.mean) parts.push(`Strong: mean of the ${data.mean_of} steps up to it; faint: single steps.`);
    if (data.runs.some(run => run.spikes[chosen.key]?.length)) parts.push('Triangles: where an episode of spikes began.');
    if (data.runs.some(run => run.end !== null)) parts.push('Crosses: the run ended, not finite.');
    if (data.thinned) parts.push('Long curves are drawn by the lowest and the highest step of every stretch, so that no spike is hidden.');
    caption.replaceChildren(make('b', {}, chosen.name + (chosen.unit ? ` (${chosen.unit})` : '') + ' against step. '), parts.join(' '));
    draw();
  }
  const choices = make('fieldset', { class: 'choice' }, make('legend', { class: 'hidden' }, 'Figure'));
  for (const one of data.figures) {
    const radio = make('input', { type: 'radio', name: 'figure' });
    radio.checked = one === state.figure;
    radio.addEventListener('change', () => choose(one));
    choices.append(make('label', {}, radio, make('span', {}, one.name)));
  }
  function button(text, action) {
    const element = make('button', { type: 'button' }, text);
    element.addEventListener('click', action);
    return element;
  }

  buildLegend();
  const figure = make('figure', { class: 'curves' }, svg, tip, caption);
  place.append(
    make('div', { class: 'controls' }, choices, logLabel, singleLabel),
    figure,
    make('div', { class: 'slide' }, make('label', { for: 'at-step' }, 'Values at'), slider, output),
    make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Values at the chosen step' }, legend),
    make('p', { class: 'buttons' }, button('Show all arms', () => switchAll(true)), button('Hide all arms', () => switchAll(false))),
  );
  choose(state.figure);
  new ResizeObserver(() => { if (Math.round(figure.clientWidth) !== view.width) draw(); }).observe(figure);
})();
