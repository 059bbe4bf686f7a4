/** A select without a visible label. @param options texts by value */
export function Choice({
  label,
  options,
  chosen,
  choose,
}: {
  label: string;
  options: Record<string, string>;
  chosen: string;
  choose: (value: string) => void;
}) {
  return (
    <select aria-label={label} value={chosen} onChange={({ currentTarget }) => choose(currentTarget.value)}>
      {Object.entries(options).map(([value, text]) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </select>
  );
}
