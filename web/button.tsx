import type { ButtonHTMLAttributes, Ref } from 'preact';

/** Sends no form unless its type is `submit`. */
export const Button = ({
  text,
  ...attributes
}: { text: string } & ButtonHTMLAttributes & { ref?: Ref<HTMLButtonElement> }) => (
  <button type="button" {...attributes}>
    {text}
  </button>
);
