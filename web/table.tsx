import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Bars, type BarsProps } from './chart.tsx';
import { Button } from './elements.tsx';
import { formatNumber } from './format.ts';

interface Cell {
  kind: 'name' | 'text' | 'short' | 'number';
  content: ComponentChildren;
}

const cell =
  (kind: Cell['kind']) =>
  (content: ComponentChildren): Cell => ({
    kind,
    content: typeof content === 'number' ? formatNumber(content) : content,
  });
/** Names its row. */
export const name = cell('name');
export const text = cell('text');
export const short = cell('short');
export const number = cell('number');

/** Rows that are made together. */
const rowsPerStep = 100;
/**
 * Rows that are laid out, or skipped while they are out of sight, together. 50 fill a frame when they come into sight; with
 * fewer rows there are more parts, of which each frame looks at all.
 */
const rowsPerPart = 25;

interface RowsProps<Row> {
  rows: Row[];
  /** Of a row, by the headings of their columns. */
  cells: (row: Row) => Record<string, Cell>;
}

interface TableProps<Row> extends RowsProps<Row> {
  caption: string;
  /** Of the same rows. */
  chart?: BarsProps;
  /** Asks for more rows, if there are any; called near the end. */
  more?: (() => void) | undefined;
  empty?: string;
}

/**
 * A table of any length: rows are made as one scrolls to them. Some browsers forget what a table is that CSS lays out in
 * another way, so each part has its role.
 */
export function Table<Row>({ caption, rows, cells, chart, more, empty = 'None.' }: TableProps<Row>) {
  const [shown, setShown] = useState(rowsPerStep);
  const end = useRef<HTMLButtonElement>(null);
  const showMore = () => {
    setShown(shown + rowsPerStep);
    if (shown + rowsPerStep >= rows.length) more?.();
  };
  useEffect(() => {
    if (end.current === null) return;
    const near = { rootMargin: '600px' };
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && showMore(), near);
    observer.observe(end.current);
    return () => observer.disconnect();
  });
  const [first] = rows;
  const parts = Math.ceil(Math.min(shown, rows.length) / rowsPerPart);
  return (
    <section class={first && chart ? 'beside' : ''}>
      {first && chart && <Bars {...chart} />}
      <div>
        <h2>{caption}</h2>
        {first === undefined ? (
          <p>{empty}</p>
        ) : (
          <table role="table" aria-label={caption}>
            <thead role="rowgroup">{line(cells(first), 'head')}</thead>
            {Array.from({ length: parts }, (_, part) => (
              <Part key={part} rows={rows.slice(part * rowsPerPart, (part + 1) * rowsPerPart)} cells={cells} />
            ))}
          </table>
        )}
        {first && (shown < rows.length || more) && <Button text="Show more" ref={end} onClick={showMore} />}
      </div>
    </section>
  );
}

/** Made anew only with other rows: Preact leaves out a component that it has made before, and no element. */
const Part = <Row,>(props: RowsProps<Row>) => useMemo(() => <Body {...props} />, props.rows);

const Body = <Row,>({ rows, cells }: RowsProps<Row>) => (
  <tbody role="rowgroup" class={rows.length === rowsPerPart ? 'full' : ''}>
    {rows.map((row, index) => line(cells(row), index))}
  </tbody>
);

const line = (cells: Record<string, Cell>, key: number | 'head') => (
  <tr role="row" key={key}>
    {Object.entries(cells).map(([head, { kind, content }]) => {
      const role = key === 'head' ? 'columnheader' : kind === 'name' ? 'rowheader' : 'cell';
      const Element = role === 'cell' ? 'td' : 'th';
      return (
        <Element key={head} role={role} data-head={head} class={kind}>
          {key === 'head' ? head : content}
        </Element>
      );
    })}
  </tr>
);
