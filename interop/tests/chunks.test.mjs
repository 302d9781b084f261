// Large messages and small frames. What this keeps true: whoever cuts how, the other side puts it together.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import test from 'node:test'
import { linked, transports } from './places.mjs'

const FIVE_MIB = 5 << 20

for (const transport of transports) {
  for (const [chunkSize, size] of [[100, 256 << 10], [64 << 10, FIVE_MIB]]) {
    test(`${transport}: ${size} bytes in frames of ${chunkSize}, there and back`, async (context) => {
      const { js, rust } = await linked(context, { transport, js: { connection: { chunkSize } }, rust: { chunkSize } })
      const data = randomBytes(size)
      const received = (await js.call(rust.id, 'echo', { data })).data
      assert.ok(data.equals(received))
      const { connection } = js.link(rust.id)
      const frames = Math.ceil(size / (chunkSize - 32))
      assert.ok(connection.framesOut > frames && connection.framesIn > frames)
      assert.ok(data.equals((await rust.call(js.appId, 'echo', { data })).data))
    })
  }
}

test('tcp: 5 MiB in frames of 100', async (context) => {
  const chunkSize = 100
  const { js, rust } = await linked(context, { js: { connection: { chunkSize } }, rust: { chunkSize } })
  const data = randomBytes(FIVE_MIB)
  assert.ok(data.equals((await js.call(rust.id, 'echo', { data })).data))
})

test('small calls are answered while a large message is under way', async (context) => {
  const { js, rust } = await linked(context, { rust: { chunkSize: 4_096 }, js: { connection: { chunkSize: 4_096 } } })
  const data = randomBytes(FIVE_MIB)
  const large = js.call(rust.id, 'echo', { data })
  const small = await Promise.all(Array.from({ length: 50 }, (_, at) => js.call(rust.id, 'echo', at)))
  assert.deepEqual(small, small.map((_, at) => at))
  assert.ok(data.equals((await large).data))
})
