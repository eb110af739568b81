/** A body that was not read to its end: the client vanished, broke the framing or stalled. */
export class BodyLost extends Error {
  /** What the answer says. */
  readonly text: string;

  /** Makes the error; what was read so far is dropped. */
  constructor(text = "The body ended early.") {
    super(`Cannot read the body: ${text}`);
    this.name = "BodyLost";
    this.text = text;
  }
}
