import type { ComponentProps } from 'preact';

/** Sends no form unless its type is `submit`. */
export const Button = ({ text, ...attributes }: { text: string } & ComponentProps<'button'>) => (
  <button type="button" {...attributes}>
    {text}
  </button>
);
