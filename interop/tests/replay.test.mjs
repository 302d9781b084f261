// Broken connections. What this keeps true: what was not ACKed comes again under its old id and in its old order, is ACKed
// again and not processed again, whichever side was the sender, and whoever makes the new connection.
import assert from 'node:assert/strict'
import test from 'node:test'
import { gated, isLink, linked, LINK_NEWS, transports } from './places.mjs'

/** Cuts the connection and waits until both sides know. */
async function cut({ js, rust }) {
  const after = { rust: rust.bus.mark(), js: js.bus.mark() }
  js.cut(rust.id)
  await js.bus.until(LINK_NEWS, { after: after.js, ...isLink(rust.id, 'offline') })
  await rust.bus.until(LINK_NEWS, { after: after.rust, ...isLink(js.appId, 'offline') })
}

async function watched(context, options) {
  const pair = await linked(context, options)
  await pair.rust.listen(LINK_NEWS)
  return pair
}

const idsOf = (js, pattern, type) => js.bus.all(pattern).map(({ msg }) => msg).filter(type).map(({ id }) => id)

for (const transport of transports) {
  test(`${transport}: a request of Rust whose ACK was held back comes again, its handler runs once`, async (context) => {
    const { js, rust, redial } = await watched(context, { transport })
    const { runs, open } = gated(js)
    js.holdAcks = true
    const call = rust.call(js.appId, 'gated', 'answer')
    await js.bus.until('nacp:inbound:request')
    await cut({ js, rust })
    js.holdAcks = false
    await redial()
    await js.bus.until('nacp:inbound:request', { count: 2 })
    open()
    assert.equal(await call, 'answer')
    assert.deepEqual(runs, ['answer'])
    const ids = idsOf(js, 'nacp:inbound:request', () => true)
    assert.deepEqual(ids, [ids[0], ids[0]])
  })

  test(`${transport}: a request to Rust whose ACK was lost is sent again, its handler runs once`, async (context) => {
    const { js, rust, redial } = await watched(context, { transport })
    js.isDeaf = true
    const call = js.call(rust.id, 'once')
    await js.bus.until('nacp:inbound:response', { count: 2 })
    await cut({ js, rust })
    js.isDeaf = false
    await redial()
    assert.equal(await call, 1)
    const ids = idsOf(js, 'nacp:outbound:request', () => true)
    assert.deepEqual(ids, [ids[0], ids[0]])
    assert.equal(await js.call(rust.id, 'once'), 2, 'it had run once')
    const answers = js.bus.all('nacp:inbound:response', { where: ({ msg }) => msg.meta.parentId === ids[0] })
    assert.equal(new Set(answers.map(({ msg }) => msg.id)).size, 1, 'the same Response, both times')
  })

  test(`${transport}: Rust dials again by itself, and what waited arrives in order`, async (context) => {
    const { js, rust } = await watched(context, { transport, dialler: 'rust' })
    const { runs, open } = gated(js)
    js.holdAcks = true
    const calls = [0, 1, 2].map((n) => rust.call(js.appId, 'gated', n))
    await js.bus.until('nacp:inbound:request', { count: 3 })
    await cut({ js, rust })
    js.holdAcks = false
    calls.push(...[3, 4, 5].map((n) => rust.call(js.appId, 'gated', n)))
    await js.bus.until('nacp:inbound:request', { count: 9 })
    open()
    assert.deepEqual(await Promise.all(calls), [0, 1, 2, 3, 4, 5])
    assert.deepEqual(runs, [0, 1, 2, 3, 4, 5])
    const seen = js.bus.all('nacp:inbound:request').map(({ msg }) => msg)
    assert.deepEqual(seen.slice(3).map(({ payload }) => payload), [0, 1, 2, 3, 4, 5])
    assert.deepEqual(seen.slice(3, 6).map(({ id }) => id), seen.slice(0, 3).map(({ id }) => id))
  })
}

test('an event call and its signals come again in order, the handler hears each once', async (context) => {
  const { js, rust, redial } = await watched(context)
  js.isDeaf = true
  const stream = js.stream(rust.id, 'hold')
  stream.signal('normal', 1)
  stream.signal('pause')
  stream.signal('resume')
  const isChunk = { where: ({ msg }) => msg.type === 'notify' }
  await js.bus.until('nacp:inbound:notify', { ...isChunk, count: 3 })
  await cut({ js, rust })
  js.isDeaf = false
  stream.signal('normal', 2)
  await redial()
  stream.signal('abort')
  const heard = (await stream.take(2)).map(({ signal, payload }) => [signal, payload])
  assert.deepEqual(heard[0], ['normal', 2], 'chunks that were lost with a connection are lost: the base protocol')
  assert.equal(heard[1][0], 'abort')
  await assert.rejects(stream.response, { message: 'aborted' })
  const sent = js.bus.all('nacp:outbound:signal').map(({ msg }) => msg.id)
  assert.deepEqual(sent.slice(3, 6), sent.slice(0, 3), 'the same ids again')
})

test('an event call of Rust and its signals survive a cut', async (context) => {
  const { js, rust, redial } = await watched(context)
  js.holdAcks = true
  const stream = rust.stream(js.appId, 'hold')
  await stream.request
  stream.signal('normal', 1)
  await stream.take(1)
  await cut({ js, rust })
  js.holdAcks = false
  stream.signal('normal', 2)
  await redial()
  const [chunk] = await stream.take(1)
  assert.deepEqual(chunk, { signal: 'normal', payload: 2 })
  stream.signal('abort')
  await assert.rejects(stream.response, { message: 'aborted' })
})

test('subscriptions outlive a cut, on both sides', async (context) => {
  const { js, rust, redial } = await watched(context)
  const theirs = await js.subscribe(rust.id, 'news:*')
  const ours = await rust.subscribe(js.appId, 'news:*')
  await cut({ js, rust })
  await rust.emit('news:offline', 1)
  js.bus.publish('news:offline', 1)
  await redial()
  await rust.emit('news:online', 2)
  js.bus.publish('news:online', 2)
  for (const stream of [theirs, ours]) {
    const hits = (await stream.take(2)).map(({ name }) => name)
    assert.deepEqual(hits, ['news:offline', 'news:online'], 'a hit in the Backlog waits like any message')
  }
})

test('an App that unregistered and comes back is a new one', async (context) => {
  const { js, rust, redial } = await watched(context)
  await js.subscribe(rust.id, 'news:*')
  await js.unregister(rust.id)
  await rust.bus.until(LINK_NEWS, isLink(js.appId, 'dropped'))
  await redial()
  assert.equal(await rust.emit('news:x', 1), 0)
  assert.equal(await js.call(rust.id, 'once'), 1)
})

test('a Rust App that did not come back within the grace of JavaScript is dropped there, and can return', async (context) => {
  const { js, rust, redial } = await watched(context, { js: { graceMs: 50 } })
  const hanging = js.stream(rust.id, 'hold')
  await js.bus.until('nacp:inbound:ack', { where: ({ msg }) => msg.meta.parentId === hanging.id })
  await cut({ js, rust })
  await assert.rejects(hanging.response, { message: 'peer-gone' })
  await redial()
  assert.equal(await js.call(rust.id, 'echo', 1), 1)
})
