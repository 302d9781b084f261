// Is the other one alive? What this keeps true: heartbeats are sent and answered both ways; silence, and only silence,
// takes a link offline.
import assert from 'node:assert/strict'
import test from 'node:test'
import { gated, isLink, linked, LINK_NEWS } from './places.mjs'

const isHeartbeat = { where: ({ msg }) => msg.meta.target === 'NApp.heartbeat' }

test('Rust beats, JavaScript answers', async (context) => {
  const { js, rust } = await linked(context, { rust: { heartbeatMs: 300 } })
  const { msg } = await js.bus.until('nacp:inbound:request', { ...isHeartbeat, count: 3 })
  assert.deepEqual(msg.payload, { from: rust.id })
  assert.equal(msg.meta.kind, 'ability')
  assert.equal(js.link(rust.id).state, 'online')
})

test('JavaScript beats, Rust answers', async (context) => {
  const { js, rust } = await linked(context)
  js.startHeartbeat(rust.id, 200)
  const sent = await js.bus.until('nacp:outbound:request', { ...isHeartbeat, count: 3 })
  const isAnswer = ({ msg }) => msg.meta.parentId === sent.msg.id
  const { msg } = await js.bus.until('nacp:inbound:response', { where: isAnswer })
  assert.deepEqual([msg.payload, msg.meta.isOk], [true, true])
})

test('a beat that is ACKed and never answered takes the link offline', async (context) => {
  const { js, rust } = await linked(context, { rust: { heartbeatMs: 300 } })
  await rust.listen(LINK_NEWS)
  js.ability('NApp.heartbeat', () => new Promise(() => {}))
  await rust.bus.until(LINK_NEWS, isLink(js.appId, 'offline'))
})

test('a beat that is answered not ok proves life, too', async (context) => {
  const { js, rust } = await linked(context, { rust: { heartbeatMs: 300 } })
  js.ability('NApp.heartbeat', () => {
    throw new Error('do not ask')
  })
  await js.bus.until('nacp:inbound:request', { ...isHeartbeat, count: 3 })
  assert.equal(js.link(rust.id).state, 'online')
})

test('a message that is never ACKed takes the link offline, and is sent again on the next', async (context) => {
  const { js, rust } = await linked(context, { dialler: 'rust', rust: { ackTimeoutMs: 100 } })
  await rust.listen(LINK_NEWS)
  await rust.listen('nacp:internal:ack:warning')
  const { runs, open } = gated(js)
  js.holdAcks = true
  const call = rust.call(js.appId, 'gated', 'answer')
  const warning = await rust.bus.until('nacp:internal:ack:warning')
  assert.equal(warning.reason, 'timeout')
  await rust.bus.until(LINK_NEWS, isLink(js.appId, 'offline'))
  js.holdAcks = false
  await js.bus.until('nacp:inbound:request', { count: 2 })
  open()
  assert.equal(await call, 'answer')
  assert.deepEqual(runs, ['answer'])
})

test('a Rust App that is silent is left by JavaScript', async (context) => {
  const { js, rust, redial } = await linked(context, { js: { ackTimeoutMs: 500 } })
  js.isDeaf = true
  const call = js.call(rust.id, 'once')
  await js.bus.until('nacp:internal:ack:warning')
  js.isDeaf = false
  await redial()
  assert.equal(await call, 1)
})
