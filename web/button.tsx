import type { ButtonHTMLAttributes } from 'preact';

/** Does what it says, and sends no form. */
export const Button = ({ text, ...attributes }: { text: string } & ButtonHTMLAttributes) => (
  <button type="button" {...attributes}>
    {text}
  </button>
);
