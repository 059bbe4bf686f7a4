import { webAddress } from './format.ts';

/** Nothing, if the address is not one of the web or has no picture. */
export function Photo({ address, size }: { address: string; size: number }) {
  const source = webAddress(address);
  if (source === undefined) return null;
  const hide = ({ currentTarget }: { currentTarget: HTMLImageElement }) => {
    currentTarget.hidden = true;
  };
  return <img class="photo" src={source} alt="" width={size} height={size} loading="lazy" onError={hide} />;
}
