// The server, as this page asks it: always with the token, where one is known.

const KEY = "eos.token";

/** The server's answer was one of refusal. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.message);
    this.status = status;
    this.remedy = problem.remedy;
  }
}

/**
 * Take the token out of the URL that was opened: whoever looks on, or gets the URL as a bookmark, is not to have it.
 * Returns whether there was one.
 */
export function takeToken() {
  const found = /^#token=([^&]+)$/.exec(location.hash);
  if (!found) return false;
  setToken(decodeURIComponent(found[1]));
  history.replaceState(null, "", `${location.pathname}#/`);
  return true;
}

export function setToken(token) {
  sessionStorage.setItem(KEY, token);
}

export function forgetToken() {
  sessionStorage.removeItem(KEY);
}

export function hasToken() {
  return sessionStorage.getItem(KEY) !== null;
}

const PATIENCE_MS = 10_000;

export const get = (path, patienceMs = PATIENCE_MS) => ask("GET", path, undefined, patienceMs);
export const post = (path, body, patienceMs = PATIENCE_MS) => ask("POST", path, body, patienceMs);

async function ask(method, path, body, patienceMs) {
  const headers = {};
  if (hasToken()) headers.authorization = `Bearer ${sessionStorage.getItem(KEY)}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(`api/v1/${path}`, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(patienceMs),
  });
  const told = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(answer.status, told?.error ?? { message: `answer ${answer.status}`, remedy: "" });
  return told;
}
