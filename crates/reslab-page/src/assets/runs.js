// The runs' parts, copying and loading again. What needs a script is shown only where there is one.
(() => {
  // A part that a link or the address names is opened.
  function open() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) target.open = true;
  }
  addEventListener('hashchange', open);
  if (location.hash) open();

  const unfold = document.querySelector('.unfold');
  unfold.hidden = false;
  unfold.addEventListener('click', () => {
    const all = unfold.getAttribute('aria-pressed') !== 'true';
    unfold.setAttribute('aria-pressed', String(all));
    for (const run of document.querySelectorAll('details.run')) run.open = all;
  });

  for (const button of document.querySelectorAll('.copy')) {
    if (!navigator.clipboard) break;
    button.hidden = false;
    button.addEventListener('click', async () => {
      const text = button.parentElement.querySelector('code').textContent;
      button.textContent = await navigator.clipboard.writeText(text).then(() => 'Copied', () => 'Not allowed');
      setTimeout(() => { button.textContent = 'Copy'; }, 2000);
    });
  }

  const reload = document.querySelector('.reload');
  if (reload) {
    reload.hidden = false;
    reload.addEventListener('click', () => location.reload());
  }
})();
