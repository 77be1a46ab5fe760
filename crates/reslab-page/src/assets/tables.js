// Tables that sort by a column. Cells that say nothing stay at the end, whichever way is sorted; equal rows keep their order.
(() => {
  const key = (row, column) => row.cells[column].dataset.sort ?? row.cells[column].textContent.trim();
  const isNumber = text => text !== '' && !Number.isNaN(Number(text));
  const says = (row, column) => !['', '-'].includes(row.cells[column].textContent.trim());

  function sort(table, head) {
    const column = head.cellIndex;
    const rows = [...table.tBodies[0].rows];
    const full = rows.filter(row => says(row, column));
    const numeric = head.classList.contains('number');
    // Words begin with a, numbers with the largest; once more turns it round.
    const first = numeric ? 'descending' : 'ascending';
    const now = head.getAttribute('aria-sort');
    const order = now === 'none' ? first : now === 'ascending' ? 'descending' : 'ascending';
    for (const other of table.tHead.rows[0].cells) other.setAttribute('aria-sort', 'none');
    head.setAttribute('aria-sort', order);
    const collator = new Intl.Collator('en', { numeric: true });
    const compare = (a, b) => {
      const [x, y] = [key(a, column), key(b, column)];
      if (!numeric) return collator.compare(x, y);
      // A word among numbers ("baseline") stands behind them.
      if (!isNumber(x) || !isNumber(y)) return 0;
      return Number(x) - Number(y) || 0;
    };
    const words = numeric ? full.filter(row => !isNumber(key(row, column))) : [];
    const sorted = full.filter(row => !words.includes(row)).sort(compare);
    if (order === 'descending') sorted.sort((a, b) => compare(b, a));
    table.tBodies[0].append(...sorted, ...words, ...rows.filter(row => !says(row, column)));
  }

  for (const table of document.querySelectorAll('table.sortable')) {
    for (const head of table.tHead.rows[0].cells) {
      head.querySelector('button').addEventListener('click', () => sort(table, head));
    }
  }
})();
