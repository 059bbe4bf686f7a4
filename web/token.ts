/** Takes the token out of the address, before anything else is loaded. */
const token = /^#token=([\w%-]+)$/.exec(location.hash)?.[1];
if (token !== undefined) {
  history.replaceState(null, '', location.pathname);
  sessionStorage.setItem('token', token);
}
