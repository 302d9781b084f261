// WebSocket: one binary message is one frame; no compression; default path /nacp, any other is 404; a text message ends
// the connection (`non-binary-frame`).
import http from 'node:http'
import https from 'node:https'
import { once } from 'node:events'
import { WebSocket, WebSocketServer } from 'ws'
import { certificate, isSecure } from './certificate.mjs'
import { Connection } from './connection.mjs'

const FRAME_BYTES_MAX = 256 << 20

function connectionOver(socket, settings) {
  const wire = {
    write: (frame, done) => socket.send(frame, { binary: true, compress: false }, done),
    destroy: () => socket.terminate(),
  }
  const connection = new Connection(wire, settings)
  socket.on('message', (data, isBinary) => {
    if (isBinary) connection.feedFrame(data)
    else connection.close('non-binary-frame')
  })
  socket.on('error', () => {}) // `close` follows
  socket.on('close', () => connection.close('closed'))
  return connection
}

export async function dialWebSocket(url, settings) {
  const socket = new WebSocket(url, { perMessageDeflate: false, maxPayload: FRAME_BYTES_MAX })
  await once(socket, 'open')
  return connectionOver(socket, settings)
}

export async function listenWebSocket(url, settings, onConnection) {
  const { hostname, port, pathname } = new URL(url)
  const path = pathname === '/' ? '/nacp' : pathname
  const upgrades = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: FRAME_BYTES_MAX })
  const missing = (request, response) => response.writeHead(404).end()
  const server = isSecure(url) ? https.createServer(certificate(), missing) : http.createServer(missing)
  server.on('upgrade', (request, socket, head) => {
    if (request.url.split('?')[0] !== path) {
      socket.end('HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n')
      return
    }
    upgrades.handleUpgrade(request, socket, head, (opened) => onConnection(connectionOver(opened, settings)))
  })
  server.listen(Number(port), hostname)
  await once(server, 'listening')
  return {
    url: `${isSecure(url) ? 'wss' : 'ws'}://127.0.0.1:${server.address().port}${path}`,
    close: () => {
      for (const opened of upgrades.clients) opened.terminate()
      server.close()
      server.closeAllConnections()
    },
  }
}
