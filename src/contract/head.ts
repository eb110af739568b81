/** The head of an answer that is not sent by Deno's server, for instance of status "200 OK". */
export function encodeHead(
  status: string,
  fields: Readonly<Record<string, string>>,
): Uint8Array<ArrayBuffer> {
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return new TextEncoder().encode(`HTTP/1.1 ${status}\r\n${lines.join("")}\r\n`);
}
