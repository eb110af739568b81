/** Tunnels by WebSocket clients that programs use. */

import { within } from "./await_event.ts";

/** Waits until it is open. */
export async function opened(socket: WebSocket): Promise<WebSocket> {
  socket.binaryType = "arraybuffer";
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  socket.onopen = () => resolve();
  socket.onerror = () => reject(new Error(`Cannot open a tunnel: ${socket.url}`));
  await within("the tunnel open", promise);
  return socket;
}

/** Sends bytes and waits until as many have come back. */
export async function echoed(socket: WebSocket, message: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const decoder = new TextDecoder();
  let seen = "";
  socket.onmessage = ({ data }) => {
    seen += decoder.decode(data as ArrayBuffer, { stream: true });
    if (seen.length >= message.length) resolve(seen);
  };
  socket.onclose = ({ code, reason }) => {
    reject(new Error(`Cannot go on: the tunnel was closed with ${code} ${reason}`));
  };
  socket.send(new TextEncoder().encode(message));
  return await within("the echo", promise);
}

/** The code with which the daemon closes. */
export async function closeCode(socket: WebSocket): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  socket.onclose = ({ code }) => resolve(code);
  return await within("the tunnel's end", promise);
}

/** Closes, and gives the code of the answer. */
export async function close(socket: WebSocket): Promise<number> {
  const closed = closeCode(socket);
  socket.close(1000);
  return await closed;
}
