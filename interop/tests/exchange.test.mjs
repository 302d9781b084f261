// Everything two linked Apps do with each other, over every transport, whoever dialled. What this keeps true: both sides
// ask and both sides serve, and a base peer never meets one of our extensions.
import assert from 'node:assert/strict'
import test from 'node:test'
import { encode } from '../peer/cbor.mjs'
import { values } from '../peer/values.mjs'
import { diallers, isLink, linked, LINK_NEWS, transports } from './places.mjs'

async function valuesThere({ js, rust }) {
  const there = encode(values).toString('hex')
  assert.equal(await js.call(rust.id, 'hex', values), there, 'Rust has the very bytes')
  assert.deepEqual(await js.call(rust.id, 'echo', values), values)
  assert.deepEqual(await js.call(rust.id, 'value', values), values, 'read as a Value and written again')
  for (const [name, value] of Object.entries(values)) {
    if (value == null) continue
    assert.deepEqual(await js.call(rust.id, 'value', value), value, `${name} as the whole payload`)
  }
  // Alone, null and undefined are a missing payload, which is written as the empty map.
  for (const nothing of [undefined, null]) assert.deepEqual(await js.call(rust.id, 'echo', nothing), {})
}

/** Read as the types that a Rust program would write down, and written again. */
async function typedValues({ js, rust }) {
  const { buffer, uint8Array, float32Array, bigUint64Array, small, beyondUint32, safeMax, bigUnsafe, bigNegative, big70 } = values
  const same = {
    small, beyondUint32, safeMax, bigUnsafe, bigNegative, big70,
    fraction: 0.1, wholeFloat: 5, infinity: Infinity, text: values.text, null: null,
  }
  const given = {
    ...same, buffer, uint8Array, float32Array, bigUint64Array, undefined: undefined,
    mapIntegers: new Map([[1, 'a'], [-2, 'b']]), objectWithDigitKeys: { 1: true, 20: false }, set: new Set(['x', 'y']),
    unknown: 'to the Rust type',
  }
  const returned = await js.call(rust.id, 'typed', given)
  for (const [name, value] of Object.entries(same)) assert.deepEqual(returned[name], value, name)
  assert.deepEqual([...returned.buffer, ...returned.uint8Array], [1, 2, 3, 4, 5])
  assert.deepEqual([returned.float32Array, returned.undefined], [[1.5, -2.25], null])
  assert.deepEqual(returned.bigUint64Array, [2n ** 63n])
  assert.deepEqual([returned.objectWithDigitKeys, returned.set], [{ 1: true, 20: false }, ['x', 'y']])
  assert.deepEqual(returned.mapIntegers, { 1: 'a', '-2': 'b' })
}

async function valuesBack({ js, rust }) {
  assert.deepEqual(await rust.call(js.appId, 'echo', values), values)
  assert.deepEqual(await rust.call(js.appId, 'echo'), {})
}

async function failures({ js, rust }) {
  await assert.rejects(js.call(rust.id, 'fail'), { message: 'it failed' })
  await assert.rejects(js.call(rust.id, 'nope'), { message: "no ability 'nope'" })
  await assert.rejects(js.stream(rust.id, 'nope').response, { message: "no event 'nope'" })
  await assert.rejects(js.call(rust.id, 'once', 'text'), /bad-payload/)
  await assert.rejects(rust.call(js.appId, 'fail'), { message: 'it failed' })
  await assert.rejects(rust.call(js.appId, 'nope'), { message: "no ability 'nope'" })
}

async function introductions({ js, rust }) {
  const names = (list) => list.map(({ name }) => name).sort()
  const ours = await js.call(rust.id, 'NApp.introduce')
  assert.deepEqual(names(ours.events), ['count', 'hold', 'tick'])
  assert.deepEqual(ours, js.link(rust.id).decl, 'the Register said the same')
  assert.deepEqual(ours.abilities.find(({ name }) => name === 'echo').description, 'returns its payload')
  const theirs = await rust.call(js.appId, 'NApp.introduce')
  assert.deepEqual(names(theirs.abilities), ['echo', 'fail', 'once'])
}

async function streams({ js, rust }) {
  for (const stream of [js.stream(rust.id, 'count', { from: 100 }), rust.stream(js.appId, 'count', { from: 100 })]) {
    const chunks = await stream.rest()
    assert.deepEqual(chunks, Array.from({ length: 100 }, (_, at) => ({ left: 100 - at })))
    assert.deepEqual(await stream.response, { done: true })
  }
}

async function signals({ js, rust }) {
  for (const stream of [js.stream(rust.id, 'hold'), rust.stream(js.appId, 'hold')]) {
    await (stream.request ?? stream.id)
    await stream.signal('normal', { add: 2n ** 60n })
    await stream.signal('normal')
    await stream.signal('pause')
    await stream.signal('resume')
    const heard = await stream.take(4)
    assert.deepEqual(heard.map(({ signal }) => signal), ['normal', 'normal', 'pause', 'resume'])
    assert.deepEqual(heard.slice(0, 2).map(({ payload }) => payload), [{ add: 2n ** 60n }, {}])
    await stream.signal('abort')
    await assert.rejects(stream.response, { message: 'aborted' })
    assert.equal((await stream.rest()).at(-1).signal, 'abort')
  }
}

/** A handler that does not look at its signals is held, let go and stopped by them. */
async function steering({ js, rust }) {
  const stream = js.stream(rust.id, 'tick')
  assert.deepEqual(await stream.take(3), [0, 1, 2])
  await stream.signal('pause')
  await stream.signal('resume')
  await stream.take(3)
  await stream.signal('abort')
  await assert.rejects(stream.response, { message: 'aborted' })
}

async function subscriptions({ js, rust }) {
  const theirs = await js.subscribe(rust.id, 'task:*:state')
  await rust.emit('task:1:state', { at: new Date(5) })
  await rust.emit('task:1:2:state', 'one segment too many')
  await rust.emit('task:2:state', null)
  assert.deepEqual(await theirs.take(2), [
    { name: 'task:1:state', payload: { at: new Date(5) } },
    { name: 'task:2:state', payload: null },
  ])
  await theirs.unsubscribe()
  assert.equal(await rust.emit('task:3:state', 0), 0, 'nobody hears it any more')
  await assert.rejects(js.subscribe(rust.id, ''), { message: 'bad-target-sub-name' })

  const ours = await rust.subscribe(js.appId, 'task:*:state')
  js.bus.publish('task:1:state', new Set([1]))
  assert.deepEqual(await ours.take(1), [{ name: 'task:1:state', payload: new Set([1]) }])
  await ours.unsubscribe()
  assert.ok((await js.bus.until('nacp:inbound:unsubscribe')).msg.payload.targetSubId)
  js.bus.publish('task:2:state', 0)
  assert.equal(js.bus.all('nacp:outbound:notify', { where: ({ msg }) => msg.meta.hitSubName === 'task:2:state' }).length, 0)
}

/** What our Apps know beyond the base protocol stays between them. */
async function noExtensions({ js, rust }) {
  const seen = js.bus.all('nacp:inbound:*').map(({ msg }) => msg)
  assert.ok(seen.length > 50)
  const known = { ack: ['parentId'], notify: ['parentId', 'targetSubName', 'hitSubName'] }
  for (const { type, meta } of seen) if (known[type]) assert.deepEqual(Object.keys(meta).sort(), known[type].sort())
  assert.equal(js.bus.all('nacp:internal:*:error', { where: ({ reason }) => reason === 'has-no-consumer' }).length, 0)
  // The last ACKs may still be in the transport's hands. What would be stuck in them fails at the time limit of the test.
  while (js.link(rust.id).waiting.submitted > 0) await new Promise(setImmediate)
  const { waiting } = js.link(rust.id)
  assert.deepEqual({ ...waiting, pending: 0 }, { backlog: 0, submitted: 0, pending: 0 })
}

async function goodbyes({ js, rust }, dialler) {
  await rust.listen(LINK_NEWS)
  if (dialler === 'javascript') await js.unregister(rust.id)
  else assert.equal(await rust.command('disconnect', { app: js.appId }), true)
  await rust.bus.until(LINK_NEWS, isLink(js.appId, 'dropped'))
  await js.bus.until(LINK_NEWS, isLink(rust.id, 'dropped'))
  await assert.rejects(rust.call(js.appId, 'echo'), { message: 'no-route' })
}

for (const transport of transports) {
  for (const dialler of diallers) {
    test(`${transport}, ${dialler} dials`, async (context) => {
      const pair = await linked(context, { transport, dialler })
      const all = {
        valuesThere, typedValues, valuesBack, failures, introductions, streams, signals, steering, subscriptions, noExtensions, goodbyes,
      }
      for (const [name, check] of Object.entries(all)) await context.test(name, () => check(pair, dialler))
    })
  }
}
