/** How long claimed work is left alone by the other replicas; it is renewed while the work goes on. */
export const leaseSeconds = 8;
