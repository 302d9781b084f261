// The server of the streamable HTTP transport. What this keeps true: a session is one downlink body and the POSTs that carry
// its token; POSTs of a session never overlap; a session that ended is unknown from then on.
import http from 'node:http'
import https from 'node:https'
import { once } from 'node:events'
import { randomBytes } from 'node:crypto'
import { certificate, isSecure } from './certificate.mjs'
import { Connection } from './connection.mjs'
import { PREFACE } from './http_client.mjs'

const BODY_BYTES_MAX = 4 << 20
const OCTETS = 'application/octet-stream'

function openSession(sessions, response, settings) {
  const token = randomBytes(18).toString('base64url')
  response.writeHead(200, {
    'content-type': OCTETS,
    'x-nact-session': token,
    'cache-control': 'no-store, no-transform',
    'x-accel-buffering': 'no',
  })
  response.write(PREFACE)
  const wire = { write: (frame, done) => response.write(frame, done), destroy: () => response.end() }
  const session = { connection: new Connection(wire, settings), reading: false }
  sessions.set(token, session)
  session.connection.on('close', () => sessions.delete(token))
  response.on('close', () => session.connection.close('closed'))
  return session.connection
}

/** Reads one POST into its session. @returns the status to answer with */
async function readUpload(session, request) {
  session.reading = true
  let size = 0
  try {
    for await (const bytes of request) {
      size += bytes.length
      if (size > BODY_BYTES_MAX) {
        session.connection.close('body-too-large')
        return 413
      }
      session.connection.feedStream(bytes)
    }
    return 204
  } catch {
    session.connection.close('upload-aborted')
    return 400
  } finally {
    session.reading = false
  }
}

async function answerPost(sessions, request) {
  const session = sessions.get(request.headers['x-nact-session'])
  if (!session) return 404
  if (request.headers['content-type'] !== OCTETS) return 415
  if (session.reading) return 409
  return readUpload(session, request)
}

export async function listenHttp(url, settings, onConnection) {
  const { hostname, port, pathname } = new URL(url)
  const path = pathname === '/' ? '/nacp' : pathname
  const sessions = new Map()
  const serve = async (request, response) => {
    if (request.url.split('?')[0] !== path) return response.writeHead(404).end()
    if (request.method === 'GET') return onConnection(openSession(sessions, response, settings))
    if (request.method !== 'POST') return response.writeHead(405, { allow: 'GET, POST' }).end()
    const status = await answerPost(sessions, request)
    return response.writeHead(status).end()
  }
  const server = isSecure(url) ? https.createServer(certificate(), serve) : http.createServer(serve)
  server.listen(Number(port), hostname)
  await once(server, 'listening')
  return {
    url: `${isSecure(url) ? 'https' : 'http'}://127.0.0.1:${server.address().port}${path}`,
    close: () => {
      for (const { connection } of sessions.values()) connection.close()
      server.close()
      server.closeAllConnections()
    },
  }
}
