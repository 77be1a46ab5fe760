// Scales of the curves: from figures to places, with round ticks, even or logarithmic.
const Scale = (() => {
  function even(low, high, most) {
    if (low === high) { low -= Math.abs(low) / 10 || 1; high += Math.abs(high) / 10 || 1; }
    const rough = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(k => k * power).find(step => step >= rough);
    const ticks = [];
    for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k++) ticks.push(k * step);
    return { ticks, part: value => (value - low) / (high - low), step };
  }

  function logarithmic(low, high, most) {
    let [from, to] = [Math.log10(low), Math.log10(high)];
    if (from === to) { from -= .1; to += .1; }
    const ticks = [];
    const each = Math.max(1, Math.ceil((to - from) / most));
    const within = to - from < 1 ? [1, 1.5, 2, 3, 4, 5, 6, 7, 8] : to - from < 2.5 ? [1, 2, 5] : [1];
    for (let k = Math.floor(from); k <= to; k += each) {
      for (const times of within) ticks.push(times * 10 ** k);
    }
    const part = value => (Math.log10(value) - from) / (to - from);
    return { ticks: ticks.filter(tick => part(tick) >= -1e-9 && part(tick) <= 1 + 1e-9), part, step: 0 };
  }

  // A figure with so many digits that count.
  function show(value, digits) {
    if (value === null || value === undefined) return '-';
    if (value === 0) return '0';
    const size = Math.abs(value);
    if (size < 1e-3 || size >= 1e6) return value.toExponential(digits - 1).replace('e+', 'e');
    return value.toPrecision(Math.max(digits, Math.floor(Math.log10(size)) + 1));
  }
  // A round one as short as it can be.
  function tick(value) {
    if (value === 0) return '0';
    const short = Number(value.toPrecision(4));
    const size = Math.abs(short);
    return size < 1e-3 || size >= 1e6 ? short.toExponential().replace('e+', 'e') : String(short);
  }

  return { even, logarithmic, show, tick };
})();
