/**
 * What an App or a fine-grained token must be allowed, by GitHub's API names, with the titles on its pages. All are to
 * read, but `checks`, which only an App can have, to write.
 */
export const permissionTitles: ReadonlyMap<string, string> = new Map([
  ['pull_requests', 'Pull requests'],
  ['issues', 'Issues'],
  ['contents', 'Contents'],
  ['metadata', 'Metadata'],
  ['members', 'Members (of the organisation)'],
  ['checks', 'Checks'],
]);

export const readPermissions = [...permissionTitles.keys()].filter(name => name !== 'checks');

/** Whether an installation has the permission to show scores on GitHub. */
export const mayWriteChecks = ({ permissions }: { permissions?: Record<string, string> | null }): boolean =>
  permissions?.checks === 'write';
