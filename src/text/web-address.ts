/** The address if it is a web page's: nothing else becomes a link. */
export const webAddress = (text: string): string | undefined =>
  URL.canParse(text) && /^https?:$/.test(new URL(text).protocol) ? text : undefined;
