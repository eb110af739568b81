/** Most characters that an answer or the log repeats of a word of the client's. */
const SHOWN = 200;

/** The beginning of a client's word, an id say, for a field of the log. */
export function cut(word: string): string {
  return word.length > SHOWN ? `${word.slice(0, SHOWN)}…` : word;
}

/** The same for a sentence: in quotes, and what would break its line is escaped. */
export function quoted(word: string): string {
  return JSON.stringify(cut(word));
}
