// The client of the streamable HTTP transport: one endless GET down, one POST at a time up. What this keeps true: bytes go
// up in order, no POST is larger than the limit, and any answer that is not 2xx ends the connection under its name.
import { Connection } from './connection.mjs'

const POST_BYTES_MAX = 1 << 20
const POST_TIMEOUT_MS = 10_000
export const PREFACE = Buffer.from([0x01, 0xcf])

/** Queues bytes and posts them; what waits while a POST is under way goes up together in the next one. */
class Uplink {
  #queue = []
  #running = false

  constructor(url, session, fail) {
    this.url = url
    this.session = session
    this.fail = fail
    this.aborter = new AbortController()
  }

  write(bytes, done) {
    for (let at = 0; at < bytes.length; at += POST_BYTES_MAX) {
      const piece = bytes.subarray(at, at + POST_BYTES_MAX)
      this.#queue.push({ piece, done: at + POST_BYTES_MAX >= bytes.length ? done : () => {} })
    }
    if (!this.#running) this.#run()
  }

  async #run() {
    this.#running = true
    while (this.#queue.length > 0 && !this.aborter.signal.aborted) {
      const batch = this.#batch()
      const reason = await this.#post(Buffer.concat(batch.map(({ piece }) => piece)))
      if (reason) return this.fail(reason)
      for (const { done } of batch) done()
    }
    this.#running = false
  }

  #batch() {
    const batch = []
    let size = 0
    while (this.#queue.length > 0 && size + this.#queue[0].piece.length <= POST_BYTES_MAX) {
      size += this.#queue[0].piece.length
      batch.push(this.#queue.shift())
    }
    return batch
  }

  /** @returns the reason why it failed, or undefined */
  async #post(body) {
    try {
      const answer = await fetch(this.url, {
        method: 'POST',
        headers: { 'x-nact-session': this.session, 'content-type': 'application/octet-stream' },
        body,
        redirect: 'error',
        signal: AbortSignal.any([this.aborter.signal, AbortSignal.timeout(POST_TIMEOUT_MS)]),
      })
      await answer.arrayBuffer()
      return answer.ok ? undefined : `http-post-${answer.status}`
    } catch {
      return 'http-post-failed'
    }
  }
}

/** Takes the two preface bytes off, wherever they were cut. */
function prefaceStripper() {
  let seen = 0
  return (bytes) => {
    let at = 0
    while (seen < PREFACE.length && at < bytes.length) {
      if (bytes[at] !== PREFACE[seen]) throw new Error('invalid-http-preface')
      seen += 1
      at += 1
    }
    return bytes.subarray(at)
  }
}

async function readDownlink(body, connection) {
  const strip = prefaceStripper()
  try {
    for await (const bytes of body) {
      const frames = strip(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))
      if (frames.length > 0) connection.feedStream(frames)
    }
    connection.close('closed')
  } catch (error) {
    connection.close(error.message === 'invalid-http-preface' ? error.message : 'closed')
  }
}

export async function dialHttp(url, settings) {
  const get = new AbortController()
  const answer = await fetch(url, { redirect: 'error', signal: get.signal })
  const session = answer.headers.get('x-nact-session')
  if (answer.status !== 200 || !session) {
    get.abort()
    throw new Error(`http-get-${answer.status}`)
  }
  const uplink = new Uplink(url, session, (reason) => connection.close(reason))
  const wire = {
    write: (frame, done) => uplink.write(frame, done),
    destroy: () => {
      uplink.aborter.abort()
      get.abort()
    },
  }
  const connection = new Connection(wire, settings)
  connection.answer = answer
  readDownlink(answer.body, connection)
  return connection
}
