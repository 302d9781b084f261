// Picks the transport by the scheme of a URL. What this keeps true: `dial` gives a Connection or fails, `listen` gives
// `{url, close}` with the port that was really bound, whatever the transport.
import { dialSocket, listenSocket } from './socket.mjs'
import { dialWebSocket, listenWebSocket } from './websocket.mjs'
import { dialHttp } from './http_client.mjs'
import { listenHttp } from './http_server.mjs'

const transports = {
  tcp: { dial: dialSocket, listen: listenSocket },
  unix: { dial: dialSocket, listen: listenSocket },
  ws: { dial: dialWebSocket, listen: listenWebSocket },
  http: { dial: dialHttp, listen: listenHttp },
  tls: { dial: dialSocket, listen: listenSocket },
  wss: { dial: dialWebSocket, listen: listenWebSocket },
  https: { dial: dialHttp, listen: listenHttp },
}

// Base peers cut HTTP messages small and others hardly ever.
const chunkSizes = { tcp: 100 << 20, unix: 2 ** 31 - 1, ws: 100 << 20, http: 64 << 10 }
Object.assign(chunkSizes, { tls: chunkSizes.tcp, wss: chunkSizes.ws, https: chunkSizes.http })

function chosen(url, options) {
  const scheme = url.slice(0, url.indexOf(':'))
  if (!transports[scheme]) throw new Error(`no transport for ${url}`)
  return [transports[scheme], { chunkSize: chunkSizes[scheme], ...options }]
}

export function dial(url, options = {}) {
  const [transport, settings] = chosen(url, options)
  return transport.dial(url, settings)
}

export function listen(url, options, onConnection) {
  const [transport, settings] = chosen(url, options)
  return transport.listen(url, settings, onConnection)
}
