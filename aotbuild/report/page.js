"use strict";
for (const header of document.querySelectorAll("th.sortable")) {
  header.tabIndex = 0;
  const sort = () => {
    const table = header.closest("table"), body = table.tBodies[0], at = header.cellIndex;
    const up = header.getAttribute("aria-sort") !== "ascending";
    for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const value = (row) => row.cells[at].dataset.value ?? row.cells[at].textContent;
    const compare = new Intl.Collator("en", { numeric: true }).compare;
    const order = (a, b) => header.classList.contains("number")
      ? (parseFloat(value(a)) || 0) - (parseFloat(value(b)) || 0) : compare(value(a), value(b));
    const rows = [...body.rows].sort((a, b) => (up ? 1 : -1) * order(a, b));
    body.append(...rows);
  };
  header.addEventListener("click", sort);
  header.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
}
