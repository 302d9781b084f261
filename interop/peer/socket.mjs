// TCP and Unix sockets, and TCP inside TLS: frames back to back on a byte stream.
import net from 'node:net'
import tls from 'node:tls'
import { once } from 'node:events'
import { certificate, isSecure } from './certificate.mjs'
import { Connection } from './connection.mjs'

const address = (url) => {
  if (url.startsWith('unix:')) return { path: url.replace(/^unix:(\/\/)?/, '') }
  const { hostname, port } = new URL(url)
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) }
}

function connectionOver(socket, settings) {
  socket.setNoDelay?.(true)
  const wire = {
    write: (frame, done) => {
      // The frames of one turn leave in one system call, or a chunk size of 100 would take tens of thousands of them.
      if (socket.writableCorked === 0) {
        socket.cork()
        process.nextTick(() => socket.uncork())
      }
      socket.write(frame, done)
    },
    destroy: () => socket.destroy(),
  }
  const connection = new Connection(wire, settings)
  socket.on('data', (bytes) => connection.feedStream(bytes))
  socket.on('error', () => {}) // `close` follows and says all that matters here
  socket.on('close', () => connection.close('closed'))
  return connection
}

export async function dialSocket(url, settings) {
  const socket = isSecure(url) ? tls.connect(address(url)) : net.connect(address(url))
  await once(socket, isSecure(url) ? 'secureConnect' : 'connect')
  return connectionOver(socket, settings)
}

export async function listenSocket(url, settings, onConnection) {
  const sockets = new Set()
  const opened = (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    onConnection(connectionOver(socket, settings))
  }
  const server = isSecure(url) ? tls.createServer(certificate(), opened) : net.createServer(opened)
  server.listen(address(url))
  await once(server, 'listening')
  const bound = server.address()
  return {
    url: typeof bound === 'string' ? `unix://${bound}` : `${isSecure(url) ? 'tls' : 'tcp'}://127.0.0.1:${bound.port}`,
    close: () => {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
