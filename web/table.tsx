import type { VNode } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { Bars, type Plot } from './chart.tsx';
import { Button } from './elements.tsx';
import { formatNumber } from './format.ts';

type Content = VNode | string | number | null;
type Cell = Content | [content: Content, kind: string];

/** At the end of its column, as a bare number is. */
export const number = (content: Content): Cell => [content, 'number'];
/** With as much room as the name of its row. */
export const wide = (content: Content): Cell => [content, 'wide'];

/** Rows that are made, laid out and skipped together. Of 100, most would be laid out late, while somebody scrolls. */
const rowsPerPart = 25;
/** Each frame looks at all blocks, and at the parts of near ones. A block grows in view: its height is known when it is full. */
const rowsPerBlock = 20 * rowsPerPart;

const split = <Row,>(rows: Row[], size: number): Row[][] =>
  Array.from({ length: Math.ceil(rows.length / size) }, (_, index) => rows.slice(index * size, (index + 1) * size));

interface TableProps<Row> {
  caption: string;
  rows: Row[];
  /** Of the same rows. */
  chart?: Plot;
  /** Asks for more rows, if there are any; called near the end. */
  more?: () => void;
  empty?: string;
  /** Gives the cells of a row, by the headings of their columns. The first that is not a number names the row. */
  children: (row: Row) => Record<string, Cell>;
}
type PartProps<Row> = { rows: Row[]; cells: TableProps<Row>['children'] };

/** Rows are made as one scrolls to them. All has its role: some browsers forget what a table is that CSS lays out. */
export function Table<Row>({ caption, rows, children, chart, more, empty = 'None.' }: TableProps<Row>) {
  const [shown, setShown] = useState(rowsPerPart);
  const showMore = () => {
    setShown(shown + rowsPerPart);
    if (shown + rowsPerPart >= rows.length) more?.();
  };
  /** New rows come before the button, which may go: the focus moves to the row that they follow. */
  const press = (button: HTMLElement) => {
    const last = [...(button.previousElementSibling?.querySelectorAll('tr') ?? [])].at(-1);
    last?.setAttribute('tabindex', '-1');
    last?.focus();
    showMore();
  };
  const watch = (end: HTMLElement | null) => {
    const near = { rootMargin: '600px' };
    // While it has the focus, somebody may be about to press it.
    const see = (seen: IntersectionObserverEntry[]) =>
      seen.at(-1)?.isIntersecting && document.activeElement !== end && showMore();
    const observer = new IntersectionObserver(see, near);
    if (end !== null) observer.observe(end);
    return () => observer.disconnect();
  };
  const [first] = rows;
  return (
    <section class={first && chart ? 'beside' : ''}>
      {first && chart && <Bars title={caption} {...chart} />}
      <div>
        <h2>{caption}</h2>
        {first === undefined ? (
          <p>{empty}</p>
        ) : (
          <table role="table" aria-label={caption}>
            <thead role="rowgroup">{line(children(first), 'head')}</thead>
            {split(rows.slice(0, shown), rowsPerBlock).map((block, index) => (
              <div key={index} class={block.length === rowsPerBlock ? 'full' : ''}>
                {split(block, rowsPerPart).map((part, index) => (
                  <Part key={index} rows={part} cells={children} />
                ))}
              </div>
            ))}
          </table>
        )}
        {first && (shown < rows.length || more) && (
          <Button text="Show more" ref={watch} onClick={({ currentTarget }) => press(currentTarget)} />
        )}
      </div>
    </section>
  );
}

/** Made anew only with other rows: Preact leaves out a component that it has made before, and no element. */
const Part = <Row,>(props: PartProps<Row>) => useMemo(() => <Body {...props} />, props.rows);

const Body = <Row,>({ rows, cells }: PartProps<Row>) => (
  <tbody role="rowgroup" class={rows.length === rowsPerPart ? 'full' : ''}>
    {rows.map((row, index) => line(cells(row), index))}
  </tbody>
);

function line(cells: Record<string, Cell>, key: number | 'head') {
  const columns = Object.entries(cells).map(([head, cell]) => {
    const [content, kind = typeof content] = Array.isArray(cell) ? cell : [cell];
    return { head, kind, content };
  });
  const naming = columns.find(({ kind }) => kind !== 'number')?.head;
  return (
    <tr role="row" key={key}>
      {columns.map(({ head, kind, content }) => {
        const role = key === 'head' ? 'columnheader' : head === naming ? 'rowheader' : 'cell';
        const Element = role === 'cell' ? 'td' : 'th';
        const shown = key === 'head' ? head : typeof content === 'number' ? formatNumber(content) : content;
        return (
          <Element key={head} role={role} data-head={head} class={head === naming ? 'wide' : kind}>
            {shown}
          </Element>
        );
      })}
    </tr>
  );
}
