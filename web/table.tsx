import type { ComponentChildren } from 'preact';
import { memo } from 'preact/compat';
import { useEffect, useRef, useState } from 'preact/hooks';

export interface Column<Row> {
  head: string;
  /** Its share of the width. */
  width?: 'wide' | 'narrow';
  isNumber?: boolean;
  /** The cell that names the row. */
  isHead?: boolean;
  cell: (row: Row) => ComponentChildren;
}

/** Rows that are laid out, or skipped while they are out of sight, together. */
const rowsPerPart = 50;

/**
 * A table of any length: rows are made as one scrolls to them. Some browsers forget what a table is that CSS lays out in
 * another way, so each part has its role.
 *
 * @param more asks for more rows, if there are any; called near the end
 */
export function Table<Row>({
  caption,
  columns,
  rows,
  keyOf,
  more,
  empty,
}: {
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  keyOf: (row: Row) => string;
  more?: (() => void) | undefined;
  empty?: ComponentChildren;
}) {
  const [shown, setShown] = useState(2);
  const end = useRef<HTMLButtonElement>(null);
  const parts: Row[][] = [];
  for (let start = 0; start < rows.length && parts.length < shown; start += rowsPerPart) {
    parts.push(rows.slice(start, start + rowsPerPart));
  }
  const hasMore = shown * rowsPerPart < rows.length || more !== undefined;
  const showMore = () => {
    setShown(shown + 2);
    if ((shown + 2) * rowsPerPart >= rows.length) more?.();
  };
  useEffect(() => {
    if (end.current === null) return;
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && showMore(), {
      rootMargin: '600px',
    });
    observer.observe(end.current);
    return () => observer.disconnect();
  });
  if (rows.length === 0 && empty !== undefined) return <div class="empty">{empty}</div>;
  return (
    <>
      <table role="table" class={`columns-${columns.length}`}>
        <caption>{caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map(column => (
              <th key={column.head} scope="col" role="columnheader" class={classOf(column)}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        {parts.map((part, index) => (
          <Part key={index} rows={part} columns={columns} keyOf={keyOf} id={part.map(keyOf).join()} />
        ))}
      </table>
      {hasMore && (
        <button type="button" ref={end} onClick={showMore}>
          Show more
        </button>
      )}
    </>
  );
}

interface PartProps<Row> {
  rows: Row[];
  columns: Column<Row>[];
  keyOf: (row: Row) => string;
  id: string;
}

const Part = memo(
  <Row,>({ rows, columns, keyOf }: PartProps<Row>) => (
    <tbody role="rowgroup" class={rows.length === rowsPerPart ? 'full' : ''}>
      {rows.map(row => (
        <tr role="row" key={keyOf(row)}>
          {columns.map(column =>
            column.isHead ? (
              <th key={column.head} scope="row" role="rowheader" class={classOf(column)}>
                {column.cell(row)}
              </th>
            ) : (
              <td key={column.head} role="cell" data-head={column.head} class={classOf(column)}>
                {column.cell(row)}
              </td>
            ),
          )}
        </tr>
      ))}
    </tbody>
  ),
  (before, after) => before.id === after.id,
) as <Row>(props: PartProps<Row>) => preact.VNode;

const classOf = <Row,>({ width, isNumber }: Column<Row>) => `${width ?? ''} ${isNumber ? 'number' : ''}`;
