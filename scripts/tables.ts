/** A row of a table in Markdown: its cells by the headings of their columns, and the heading above the table as `section`. */
export type TableRow = Record<string, string>;

const cellsOf = (line: string) =>
  line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map(cell => cell.trim().replaceAll('\\|', '|'));

/** The rows of all tables on a page. */
export function readTables(page: string): TableRow[] {
  return page.split(/^(?=#+ )/m).flatMap(text => {
    const section = /^#+ (.*)/.exec(text)?.[1] ?? '';
    return (text.match(/(?:^\|.*\n)+/gm) ?? []).flatMap(table => {
      const [headings = [], , ...rows] = table.trimEnd().split('\n').map(cellsOf);
      return rows.map(cells => ({
        section,
        ...Object.fromEntries(headings.map((heading, index) => [heading, cells[index] ?? ''])),
      }));
    });
  });
}
