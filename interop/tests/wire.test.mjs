// What the transports of our side refuse. What this keeps true: every violation of the frame format ends its connection
// under the protocol's name for it, and the HTTP side answers with the statuses that base clients expect.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import test from 'node:test'
import { WebSocket } from 'ws'
import { frames } from '../peer/frame.mjs'
import { freshId } from '../peer/app.mjs'
import { dial } from '../peer/transport.mjs'
import { javascriptApp, place } from './places.mjs'
import { RustApp } from './rust_app.mjs'

const OCTETS = 'application/octet-stream'

async function listening(context, transport) {
  const rust = await RustApp.start(context, { id: freshId('rust'), listen: [place(context, transport)] })
  await rust.listen('nact:peer:*')
  return rust
}

const frameOf = (change = () => {}, offset = 0, total = 4) => {
  const [frame] = frames(Buffer.from('body'), 1 << 20, Buffer.alloc(16, 7))
  frame.writeUInt32BE(offset, 16)
  frame.writeUInt32BE(total, 20)
  change(frame)
  return frame
}

const violations = {
  // Version and magic are both wrong: the version is looked at first.
  'version-mismatch': [frameOf((frame) => frame.fill(9, 30))],
  'bad-magic': [frameOf((frame) => (frame[30] = 0))],
  'frame-too-small': [frameOf((frame) => frame.writeUInt32BE(31, 24))],
  'frame-too-large': [frameOf((frame) => frame.writeUInt32BE(2 ** 31 + 1, 24))],
  'frame-out-of-bounds': [frameOf((frame) => frame.writeUInt32BE(1, 16))],
  'overlapping-frame': [frameOf(undefined, 0, 9), frameOf(undefined, 3, 9)],
}

for (const transport of ['tcp', 'ws', 'http']) {
  test(`${transport}: each violation ends the connection under its name`, async (context) => {
    const rust = await listening(context, transport)
    const all = { ...violations }
    if (transport === 'ws') all['frame-size-mismatch'] = [frameOf((frame) => frame.writeUInt32BE(33, 24))]
    for (const [reason, sent] of Object.entries(all)) {
      const after = rust.bus.mark()
      const connection = await dial(rust.url)
      const closed = once(connection, 'close')
      for (const frame of sent) connection.wire.write(frame, () => {})
      const error = await rust.bus.until('nact:peer:error', { after })
      assert.equal(error.reason, reason)
      await rust.bus.until('nact:peer:disconnect', { after, where: ({ peerId }) => peerId === error.peerId })
      await closed
    }
  })
}

test('ws: a text message ends the connection, another path is not found', async (context) => {
  const rust = await listening(context, 'ws')
  const socket = new WebSocket(rust.url, { perMessageDeflate: false })
  await once(socket, 'open')
  assert.equal(socket.extensions, '', 'no compression')
  const closed = new Promise((resolve) => socket.on('error', () => {}).on('close', resolve))
  socket.send('text')
  assert.equal((await rust.bus.until('nact:peer:error')).reason, 'non-binary-frame')
  await closed
  const lost = new WebSocket(rust.url.replace(/\/nacp$/, '/other'))
  const [error] = await once(lost, 'error')
  assert.match(error.message, /404/)
})

test('http: the statuses and headers of the protocol', async (context) => {
  const rust = await listening(context, 'http')
  const status = async (method, url, headers = {}, body = undefined) => {
    const answer = await fetch(url, { method, headers, body })
    await answer.arrayBuffer()
    return answer.status
  }
  assert.equal(await status('GET', rust.url.replace(/\/nacp$/, '/other')), 404)
  const refused = await fetch(rust.url, { method: 'DELETE' })
  assert.deepEqual([refused.status, refused.headers.get('allow')], [405, 'GET, POST'])
  assert.equal(await status('POST', rust.url, { 'x-nact-session': 'unknown', 'content-type': OCTETS }, 'x'), 404)

  const js = javascriptApp(context)
  const link = await js.dial(rust.url, rust.id)
  const { headers } = link.connection.answer
  const session = headers.get('x-nact-session')
  assert.equal(headers.get('content-type'), OCTETS)
  assert.equal(headers.get('cache-control'), 'no-store, no-transform')
  assert.equal(headers.get('x-accel-buffering'), 'no')
  assert.equal(await status('POST', rust.url, { 'x-nact-session': session, 'content-type': 'text/plain' }, 'x'), 415)
  assert.equal(await status('POST', rust.url, { 'x-nact-session': session, 'content-type': OCTETS }), 204, 'an empty one')
  assert.equal(await js.call(rust.id, 'echo', 1), 1, 'and the session is as it was')

  const large = Buffer.alloc((4 << 20) + 1)
  assert.equal(await status('POST', rust.url, { 'x-nact-session': session, 'content-type': OCTETS }, large).catch(() => 413), 413)
  await rust.bus.until('nact:peer:disconnect')
})
